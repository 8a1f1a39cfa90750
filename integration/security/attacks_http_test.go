package security

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session/api"
)

// refusedStatus describes the difference between a response and a refusal.
func refusedStatus(status int, answer string, want ...int) string {
	for _, w := range want {
		if status == w && strings.Contains(answer, `"code":"`) {
			return ""
		}
	}
	return fmt.Sprintf("got %d %.300s, want %v and a code", status, answer, want)
}

// hostileIDs stand in the place of a session's id in a path. A caller without any grant sends them.
func hostileIDs() map[string]string {
	return map[string]string{
		"up": "..%2fmine", "dots": "%2e%2e", "round": "x%2f..%2fmine", "nul": "mine%00", "subject": "mine.turn", "star": "*", "rest": "%3e",
		"break": "mine%0d%0aX: y", "blank": "mine%20", "backslash": "..%5cmine", "long": strings.Repeat("m", 300), "overlong": "%c0%ae%c0%ae%c0%afmine", "wide": "mi%ef%bd%8ee",
	}
}

// attacksOnHTTP sends every operation with every caller and path.
func (f *installation) attacksOnHTTP() (list []attack) {
	add := func(class, name string, run func() string) { list = append(list, attack{"HTTP", class, name, run}) }
	for _, op := range f.http.Doc.Operations() {
		if op.Scope == "" {
			continue
		}
		path, body := harness.PathOf(op.Path, "mine")+harness.QueryOf(op.ID), harness.ValidBodies()[op.ID]
		for name, header := range map[string]string{
			"no_token": "", "wrong_token": "Bearer nobody" + harness.TokenSecret, "other_scheme": "Basic YWRtaW46YWRtaW4=", "digest": "Bearer d033e22ae348aeb5660fc2140aec35850c4da997",
			"cut_token": "Bearer admin" + harness.TokenSecret[:len(harness.TokenSecret)-1], "two_tokens": "Bearer admin reader",
		} {
			add("identity", op.ID+"_"+name, func() string {
				status, answer := f.http.StatusOf("", op.Method, path, body, "Authorization", header)
				return refusedStatus(status, answer, http.StatusUnauthorized)
			})
		}
		for _, right := range onlyRights() {
			if api.Scope(right).Has(api.Right(op.Right)) {
				continue
			}
			add("rights", op.ID+"_with_"+string(right), func() string {
				status, answer := f.http.StatusOf("only-"+string(right), op.Method, path, body)
				return refusedStatus(status, answer, http.StatusForbidden)
			})
		}
		if strings.Contains(op.Path, "{session}") {
			add("reach", op.ID, func() string { return f.reachOverHTTP(op, body) })
			for name, id := range hostileIDs() {
				add("path traversal", op.ID+"_"+name, func() string {
					status, answer := f.http.StatusOf("bob", op.Method, harness.PathOf(op.Path, id)+harness.QueryOf(op.ID), body)
					return refusedStatus(status, answer, 400, 404, 405)
				})
			}
		}
		add("limits", op.ID+"_unknown_parameter", func() string {
			sign := "?"
			if strings.Contains(path, "?") {
				sign = "&"
			}
			status, answer := f.http.StatusOf("admin", op.Method, path+sign+"nosuch=1", body)
			return refusedStatus(status, answer, http.StatusBadRequest)
		})
		if op.Method == http.MethodGet {
			continue
		}
		for name, key := range map[string]string{"subject": "a.b", "rest": ">", "blank": "a b", "path": "../x", "long": strings.Repeat("k", 300), "bytes": "\xff\xfe"} {
			add("idempotency", op.ID+"_key_"+name, func() string {
				status, answer := f.http.StatusOf("admin", op.Method, path, body, "Idempotency-Key", key)
				return refusedStatus(status, answer, http.StatusBadRequest)
			})
		}
	}
	return list
}

// reachOverHTTP expects the response for a session that does not exist.
func (f *installation) reachOverHTTP(op harness.Operation, body string) string {
	status, answer := f.http.StatusOf("bob", op.Method, harness.PathOf(op.Path, "hers")+harness.QueryOf(op.ID), body, "Idempotency-Key", "hers") // the id of the new session
	want, none := f.http.StatusOf("bob", op.Method, harness.PathOf(op.Path, "nosuch")+harness.QueryOf(op.ID), body, "Idempotency-Key", "nosuch")
	if none = strings.ReplaceAll(none, "nosuch", "hers"); status != want || answer != none {
		return fmt.Sprintf("got %d %s, want %d %s", status, answer, want, none)
	}
	return ""
}

// bodiesOverHTTP sends every operation that has a body with every body.
func (f *installation) bodiesOverHTTP() (list []attack) {
	for _, op := range f.http.Doc.Operations() {
		if op.Scope == "" || harness.ValidBodies()[op.ID] == "" || op.Given {
			continue // any bytes are good ones
		}
		for name, b := range map[string]struct {
			class, body string
			status      int
		}{
			"too_large":     {"size", `{"x":"` + strings.Repeat("x", 1<<20) + `"}`, http.StatusRequestEntityTooLarge},
			"blanks":        {"size", strings.Repeat(" ", 2<<20), http.StatusRequestEntityTooLarge},
			"arrays":        {"depth", string(harness.Nest(100_000, "[", "", "]")), http.StatusBadRequest},
			"objects":       {"depth", string(harness.Nest(10_000, `{"a":`, "1", "}")), http.StatusBadRequest},
			"open":          {"depth", string(harness.Nest(100_000, "[", "", "")), http.StatusBadRequest},
			"list":          {"schema", "[]", http.StatusBadRequest},
			"text":          {"schema", `"x"`, http.StatusBadRequest},
			"nothing":       {"schema", "", http.StatusBadRequest},
			"unknown_field": {"schema", `{"__proto__":{}}`, http.StatusBadRequest},
			"two_values":    {"schema", harness.ValidBodies()[op.ID] + "{}", http.StatusBadRequest},
			"no_utf8":       {"schema", "{\"\xff\":1}", http.StatusBadRequest},
			"cut":           {"schema", `{"id":"`, http.StatusBadRequest},
		} {
			if name == "nothing" && op.ID == "cancelTurn" {
				continue
			}
			if op.ID == "createSession" && b.class == "size" {
				b.status = http.StatusBadRequest // it is read, as it could be a snapshot
			}
			list = append(list, attack{"HTTP", b.class, op.ID + "_" + name, func() string {
				status, answer := f.http.StatusOf("admin", op.Method, harness.PathOf(op.Path, "mine"), b.body)
				return refusedStatus(status, answer, b.status)
			}})
		}
	}
	for name, body := range map[string]string{
		"itself": `{"id":"ring","parent":"ring"}`, "by_fork": `{"id":"mine","parent":"mine"}`,
	} {
		list = append(list, attack{"HTTP", "parent cycle", name, func() string {
			status, answer := f.http.StatusOf("admin", "POST", "/v1/sessions", body)
			return refusedStatus(status, answer, 400, 409)
		}})
	}
	for name, query := range map[string]string{"for_ever": "wait=1000000h", "negative": "wait=-1s", "word": "wait=x", "overflow": "wait=99999999999999999999"} {
		list = append(list, attack{"HTTP", "limits", "wait_" + name, func() string {
			status, answer := f.http.StatusOf("admin", "GET", "/v1/sessions/mine/turns/t1?"+query, "")
			return refusedStatus(status, answer, http.StatusBadRequest)
		}})
	}
	return list
}
