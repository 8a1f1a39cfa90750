package integration

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/lash-go/lash/session/api"
)

// refusedStatus says what is wrong with an answer that should be a refusal.
func refusedStatus(status int, answer string, want ...int) string {
	for _, w := range want {
		if status == w && strings.Contains(answer, `"code":"`) {
			return ""
		}
	}
	return fmt.Sprintf("got %d %.300s, want %v and a code", status, answer, want)
}

// hostileIDs are in place of a session's id in a path. A caller that reaches nothing sends them.
func hostileIDs() map[string]string {
	return map[string]string{
		"up": "..%2fmine", "dots": "%2e%2e", "round": "x%2f..%2fmine", "nul": "mine%00", "subject": "mine.turn", "star": "*", "rest": "%3e",
		"break": "mine%0d%0aX: y", "blank": "mine%20", "backslash": "..%5cmine", "long": strings.Repeat("m", 300), "overlong": "%c0%ae%c0%ae%c0%afmine", "wide": "mi%ef%bd%8ee",
	}
}

// attacksOnHTTP crosses every operation with callers and paths.
func (f *stronghold) attacksOnHTTP() (list []attack) {
	add := func(class, name string, run func() string) { list = append(list, attack{"HTTP", class, name, run}) }
	for _, op := range f.http.doc.operations() {
		if op.scope == "" {
			continue
		}
		path, body := at(op.path, "mine")+query(op.id), validBodies()[op.id]
		for name, header := range map[string]string{
			"no_token": "", "wrong_token": "Bearer nobody" + secret, "other_scheme": "Basic YWRtaW46YWRtaW4=", "digest": "Bearer d033e22ae348aeb5660fc2140aec35850c4da997",
			"cut_token": "Bearer admin" + secret[:len(secret)-1], "two_tokens": "Bearer admin reader",
		} {
			add("identity", op.id+"_"+name, func() string {
				status, answer := f.http.outcome("", op.method, path, body, "Authorization", header)
				return refusedStatus(status, answer, http.StatusUnauthorized)
			})
		}
		for _, right := range onlyRights() {
			if api.Scope(right).Has(api.Right(op.right)) {
				continue
			}
			add("rights", op.id+"_with_"+string(right), func() string {
				status, answer := f.http.outcome("only-"+string(right), op.method, path, body)
				return refusedStatus(status, answer, http.StatusForbidden)
			})
		}
		if strings.Contains(op.path, "{session}") {
			add("reach", op.id, func() string { return f.reachOverHTTP(op, body) })
			for name, id := range hostileIDs() {
				add("path traversal", op.id+"_"+name, func() string {
					status, answer := f.http.outcome("bob", op.method, at(op.path, id)+query(op.id), body)
					return refusedStatus(status, answer, 400, 404, 405)
				})
			}
		}
		add("limits", op.id+"_unknown_parameter", func() string {
			sign := "?"
			if strings.Contains(path, "?") {
				sign = "&"
			}
			status, answer := f.http.outcome("admin", op.method, path+sign+"nosuch=1", body)
			return refusedStatus(status, answer, http.StatusBadRequest)
		})
		if op.method == http.MethodGet {
			continue
		}
		for name, key := range map[string]string{"subject": "a.b", "rest": ">", "blank": "a b", "path": "../x", "long": strings.Repeat("k", 300), "bytes": "\xff\xfe"} {
			add("idempotency", op.id+"_key_"+name, func() string {
				status, answer := f.http.outcome("admin", op.method, path, body, "Idempotency-Key", key)
				return refusedStatus(status, answer, http.StatusBadRequest)
			})
		}
	}
	return list
}

// reachOverHTTP wants the answer of a session that there is none of.
func (f *stronghold) reachOverHTTP(op documented, body string) string {
	status, answer := f.http.outcome("bob", op.method, at(op.path, "hers")+query(op.id), body, "Idempotency-Key", "hers") // the id of what is made
	want, none := f.http.outcome("bob", op.method, at(op.path, "nosuch")+query(op.id), body, "Idempotency-Key", "nosuch")
	if none = strings.ReplaceAll(none, "nosuch", "hers"); status != want || answer != none {
		return fmt.Sprintf("got %d %s, want %d %s", status, answer, want, none)
	}
	return ""
}

// bodiesOverHTTP crosses every operation that takes a body with bodies.
func (f *stronghold) bodiesOverHTTP() (list []attack) {
	for _, op := range f.http.doc.operations() {
		if op.scope == "" || validBodies()[op.id] == "" || op.given {
			continue // any bytes are good ones
		}
		for name, b := range map[string]struct {
			class, body string
			status      int
		}{
			"too_large":     {"size", `{"x":"` + strings.Repeat("x", 1<<20) + `"}`, http.StatusRequestEntityTooLarge},
			"blanks":        {"size", strings.Repeat(" ", 2<<20), http.StatusRequestEntityTooLarge},
			"arrays":        {"depth", string(nested(100_000, "[", "", "]")), http.StatusBadRequest},
			"objects":       {"depth", string(nested(10_000, `{"a":`, "1", "}")), http.StatusBadRequest},
			"open":          {"depth", string(nested(100_000, "[", "", "")), http.StatusBadRequest},
			"list":          {"schema", "[]", http.StatusBadRequest},
			"text":          {"schema", `"x"`, http.StatusBadRequest},
			"nothing":       {"schema", "", http.StatusBadRequest},
			"unknown_field": {"schema", `{"__proto__":{}}`, http.StatusBadRequest},
			"two_values":    {"schema", validBodies()[op.id] + "{}", http.StatusBadRequest},
			"no_utf8":       {"schema", "{\"\xff\":1}", http.StatusBadRequest},
			"cut":           {"schema", `{"id":"`, http.StatusBadRequest},
		} {
			if name == "nothing" && op.id == "cancelTurn" {
				continue
			}
			list = append(list, attack{"HTTP", b.class, op.id + "_" + name, func() string {
				status, answer := f.http.outcome("admin", op.method, at(op.path, "mine"), b.body)
				return refusedStatus(status, answer, b.status)
			}})
		}
	}
	for name, body := range map[string]string{
		"itself": `{"id":"ring","parent":"ring"}`, "by_fork": `{"id":"mine","parent":"mine"}`,
	} {
		list = append(list, attack{"HTTP", "parent cycle", name, func() string {
			status, answer := f.http.outcome("admin", "POST", "/v1/sessions", body)
			return refusedStatus(status, answer, 400, 409)
		}})
	}
	for name, query := range map[string]string{"for_ever": "wait=1000000h", "negative": "wait=-1s", "word": "wait=x", "overflow": "wait=99999999999999999999"} {
		list = append(list, attack{"HTTP", "limits", "wait_" + name, func() string {
			status, answer := f.http.outcome("admin", "GET", "/v1/sessions/mine/turns/t1?"+query, "")
			return refusedStatus(status, answer, http.StatusBadRequest)
		}})
	}
	return list
}
