package security

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/operation"
)

// rightOverHTTP is the right that an operation of the document needs, from the table of [needs].
func rightOverHTTP(t *testing.T, id string) api.Right {
	t.Helper()
	if id == "forkSession" || id == "streamCompletion" { // which have no name over NATS
		return api.RightWrite
	}
	for _, row := range operation.All() {
		if row.ID != id {
			continue
		}
		for right, names := range needs() {
			if slices.Contains(names, string(row.Name)) {
				return right
			}
		}
		return api.RightRead // over HTTP alone
	}
	t.Fatalf("%s: it is no operation", id)
	return ""
}

// httpCaller is a caller, and what it may do in a session of alice.
type httpCaller struct {
	token  string
	grant  []events.SessionRight
	has    []api.Right // in the session
	beyond []api.Right // outside of sessions
	hidden bool        // the session is as one that does not exist
	status int         // of every response; 0: by the rights
}

func httpCallers() map[string]httpCaller {
	most := []api.Right{api.RightRead, api.RightWrite, api.RightApprove, api.RightConfigure, api.RightGrant}
	all := append([]api.Right{api.RightCommand}, most...)
	list := map[string]httpCaller{
		"owner": {token: "alice", has: all, beyond: all}, "admin": {token: "admin", has: all, beyond: all}, "scope_write": {token: "writer", has: most, beyond: most},
		"scope_read": {token: "reader", has: all[1:2], beyond: all[1:2]}, "none": {token: "bob", hidden: true, beyond: all},
		"other_tenant": {token: "globex", status: http.StatusUnauthorized}, "unknown": {token: "nobody", status: http.StatusUnauthorized}, "nothing": {status: http.StatusUnauthorized},
	}
	for scope, has := range listedScopes() {
		name := "scope_" + strings.ReplaceAll(string(scope), ",", "_")
		list[name] = httpCaller{token: name, has: has, beyond: has}
	}
	for _, grant := range [][]events.SessionRight{{"read"}, {"write"}, {"approve"}, {"read", "write", "approve"}} {
		c := httpCaller{token: "bob", grant: grant, beyond: all}
		for _, right := range grant {
			c.has = append(c.has, api.Right(right))
		}
		list[fmt.Sprint("grant_", grant)] = c
	}
	return list
}

// listedScopes are scopes that list rights, and what callers have who reach every session with them.
func listedScopes() map[api.Scope][]api.Right {
	return map[api.Scope][]api.Right{
		"approve": {api.RightApprove}, "command": {api.RightCommand}, "configure": {api.RightConfigure, api.RightGrant},
		"read,write": {api.RightRead, api.RightWrite}, "write,approve": {api.RightWrite, api.RightApprove},
	}
}

// ofGlobex identifies one token, of another tenant.
type ofGlobex struct{}

func (ofGlobex) Identify(r *http.Request) (c httpapi.Caller, err error) {
	if r.Header.Get("Authorization") != "Bearer globex"+harness.TokenSecret {
		return c, httpapi.ErrNotMine
	}
	return httpapi.Caller{Caller: api.Caller{Name: "alice", Reach: api.Reach{Scope: api.ScopeAdmin}}, Tenant: "globex"}, nil
}

// TestLongRightsOverHTTP has every kind of caller send every operation of the document: the owner, callers with each scope and
// each grant, one without a grant, one of another tenant, and clients without a token that is known. What the table of
// rights does not allow is refused, without an effect. Without a grant each response is that of a session that does not exist.
func TestLongRightsOverHTTP(t *testing.T) {
	t.Parallel()
	var tokens []httpapi.Token
	for scope := range listedScopes() {
		name := "scope_" + strings.ReplaceAll(string(scope), ",", "_")
		tokens = append(tokens, httpapi.Token{Name: name, Digest: sha256.Sum256([]byte(name + harness.TokenSecret)), Scope: scope})
	}
	d := harness.StartIdle(t).ServeHTTP(httpapi.Config{Tokens: tokens, Tenant: "acme", Identity: []httpapi.Identifier{ofGlobex{}}})
	n := 0
	for who, c := range httpCallers() {
		for _, op := range d.Doc.Operations() {
			if op.Scope == "" {
				continue // the document
			}
			n++
			id := events.SessionID(fmt.Sprint("s-", n))
			runtest.Equal(t, "create", d.Send("alice", "POST", "/v1/sessions", fmt.Sprintf(`{"id":%q}`, id)).Status, 201)
			if len(c.grant) > 0 {
				runtest.WantError(t, "grant", d.Grant(d.Ctx, id, api.GrantRequest{To: c.token, Rights: c.grant}), nil)
			}
			before := d.LastSeq(id)
			status, answer := d.StatusOf(c.token, op.Method, harness.PathOf(op.Path, string(id))+harness.QueryOf(op.ID), harness.ValidBodies()[op.ID], "Idempotency-Key", fmt.Sprint("n-", n))
			what := fmt.Sprintf("%s: %s: got %d %.200s", who, op.ID, status, answer)
			hidden := strings.Contains(answer, `"code":"no_session"`)
			named := strings.Contains(op.Path, "{session}")
			has := c.beyond
			if named {
				has = c.has
			}
			switch {
			case c.status != 0:
				if status != c.status {
					t.Errorf("%s, want %d", what, c.status)
				}
			case named && c.hidden:
				want, none := d.StatusOf(c.token, op.Method, harness.PathOf(op.Path, "nosuch")+harness.QueryOf(op.ID), harness.ValidBodies()[op.ID], "Idempotency-Key", fmt.Sprint("n-", n))
				runtest.Equal(t, what, fmt.Sprint(status, answer), fmt.Sprint(want, strings.ReplaceAll(none, "nosuch", string(id))))
			case slices.Contains(has, rightOverHTTP(t, op.ID)):
				if status == http.StatusUnauthorized || status == http.StatusForbidden || hidden {
					t.Errorf("%s, want it allowed", what)
				}
				continue
			case status != http.StatusForbidden:
				t.Errorf("%s, want it forbidden", what)
			}
			runtest.Equal(t, "commits after "+what, d.LastSeq(id), before)
			if _, err := d.State(d.Ctx, events.SessionID(fmt.Sprint("n-", n))); !errors.Is(err, events.ErrNoSession) {
				t.Errorf("%s, and a session: %v", what, err)
			}
		}
	}
	t.Logf("%d requests", n)
}
