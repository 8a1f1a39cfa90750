package security

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
)

// aim is mostly the session under attack; callers without a grant name other ones. A close is mostly of another session:
// else most requests meet a session that is closed.
func (a *attacker) aim(op, outsider, caller string) (session, by string) {
	switch {
	case strings.HasPrefix(op, "close") && a.IntN(10) > 0:
		return pick(a.forger, a.fresh, "nosuch"), caller
	case a.IntN(8) == 0:
		a.change = "session"
		return pick(a.forger, "warm-0", "played-0", "nosuch", "a.b", strings.Repeat("x", 300)), outsider
	}
	return a.id, caller
}

// token is a caller over HTTP, which mostly has the right.
func (f *forger) token(right string) string {
	switch {
	case f.IntN(10) == 0:
		f.change = "caller"
		return pick(f, "reader", "bob", "", "only-read", "only-approve")
	case right == "command":
		return pick(f, "admin", "root")
	}
	return pick(f, "writer", "admin")
}

// path is the path of an operation, with its query. A parameter is hostile from time to time.
func (f *forger) path(op harness.Operation, session string) string {
	parts := strings.Split(op.Path, "/")
	for i, part := range parts {
		switch {
		case part == "{session}":
			parts[i] = url.PathEscape(session)
		case strings.HasPrefix(part, "{") && f.IntN(6) == 0:
			f.change = "path"
			parts[i] = url.PathEscape(events.Clip(f.text(), 4000, ""))
		}
	}
	path := harness.PathOf(strings.Join(parts, "/"), session) + harness.QueryOf(op.ID)
	if f.IntN(6) > 0 {
		return path
	}
	f.change = "query"
	sign := "?"
	if strings.Contains(path, "?") {
		sign = "&"
	}
	name := pick(f, "wait", "limit", "cursor", "as", "call", "label", "parent", "status", "nosuch", "")
	return path + sign + name + "=" + url.QueryEscape(events.Clip(pick(f, f.text(), "0", "1ms", "-1", "1e9", "99999999999999999999", "5"), 4000, ""))
}

// overHTTP sends a request of an operation. Of a stream it reads the beginning.
func (a *attacker) overHTTP(op harness.Operation) {
	session, token := a.aim(op.ID, "bob", a.token(op.Right))
	body := a.json(op, a.fresh)
	method := op.Method
	if a.IntN(60) == 0 {
		a.change, method = "method", "PROPFIND"
	}
	r, err := http.NewRequestWithContext(a.Ctx, method, a.http.URL+a.path(op, session), strings.NewReader(body))
	if err != nil {
		a.wrong("request of %s: %v", op.ID, err)
		return
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token+harness.TokenSecret)
	}
	if a.IntN(3) == 0 {
		r.Header.Set("Idempotency-Key", pick(a.forger, "k1", "k2", a.fresh, "a b", a.unique(), a.unique()))
	}
	got, err := a.http.Client.Do(r)
	if err != nil {
		if len(body) <= 1<<20 { // else the server may close before it has all
			a.wrong("%s %s: %v", op.ID, clipped(body), err)
		}
		return
	}
	defer func() { _ = got.Body.Close() }()
	what := fmt.Sprintf("HTTP %s %s %s", op.ID, r.URL.RequestURI()[:min(len(r.URL.RequestURI()), 200)], clipped(body))
	if strings.HasPrefix(got.Header.Get("Content-Type"), "text/event-stream") {
		if _, err := got.Body.Read(make([]byte, 16)); err != nil {
			a.wrong("%s: %v", what, err)
		}
		a.outcome("HTTP", "ok")
		return
	}
	answer, err := io.ReadAll(got.Body)
	if err != nil {
		a.wrong("%s: %v", what, err)
	}
	if got.StatusCode >= 300 {
		a.outcome("HTTP", a.problem(what, got.StatusCode, answer))
		a.undone(got.StatusCode, r.Header.Get("Idempotency-Key"))
		return
	}
	seq, _ := strconv.ParseUint(got.Header.Get("Lash-Seq"), 10, 64)
	a.accepted("HTTP", events.SessionID(session), events.Seq(seq), token, madeBy(op.ID, answer))
	a.promises(op.ID, events.SessionID(session), answer)
}

// madeBy is the session that a request made; empty: none.
func madeBy(op string, answer []byte) events.SessionID {
	var made struct{ ID events.SessionID }
	if op == "createSession" || op == "forkSession" || op == "create_session" {
		_ = json.Unmarshal(answer, &made)
	}
	return made.ID
}

// problem checks a response of the API that refuses a request, and returns its code.
func (s *siege) problem(what string, status int, body []byte) (code string) {
	var p struct {
		Code, Detail string
		Details      map[string]string
	}
	if err := json.Unmarshal(body, &p); err != nil || p.Code == "" || p.Detail == "" {
		s.wrong("%s: got %d %s, want a code and a reason", what, status, clipped(string(body)))
	}
	switch status {
	case 400, 413, 429:
		s.named(what, p.Code, p.Detail, p.Details)
	case 401, 403, 404, 405, 406, 409, 410, 422, 503, 504:
	default:
		s.wrong("%s: got %d %s", what, status, clipped(string(body)))
	}
	return p.Code
}

// named checks that a refusal names a field or a limit, in its details and for people.
func (s *siege) named(what, code, text string, details map[string]string) {
	field := details["field"]
	if field == "" && details["limit"] == "" {
		s.wrong("%s: got %s %q %v, want a field or a limit", what, code, clipped(text), details)
	}
	if name, _, _ := strings.Cut(field, "["); field != "" && field != "body" && !strings.Contains(text, name[strings.LastIndexByte(name, '.')+1:]) {
		s.wrong("%s: got %s %q, want %q in it", what, code, clipped(text), field)
	}
}

func clipped(text string) string { return text[:min(len(text), 300)] }
