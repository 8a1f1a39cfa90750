package security

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
)

// inSession are the operations of the document that name a session.
func inSession(d *harness.HTTP) (list []harness.Operation) {
	for _, op := range d.Doc.Operations() {
		if strings.Contains(op.Path, "{session}") {
			list = append(list, op)
		}
	}
	return list
}

// TestGrantOverHTTP has a session's owner grant another caller access and revoke it. The other caller reads what
// it is granted, watches until the grant is revoked, and keeps no access.
func TestGrantOverHTTP(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Text("hello")))
	b.StartNode()
	d := b.ServeHTTP(httpapi.Config{})
	const s = "/v1/sessions/s1"
	expect := func(want int, token, method, path, body string) harness.Response {
		t.Helper()
		got := d.Send(token, method, path, body)
		if got.Status != want {
			t.Fatalf("%s %s %s by %s: got %d %s, want %d", method, path, body, token, got.Status, got.Body, want)
		}
		return got
	}
	expect(201, "alice", "POST", "/v1/sessions", `{"id":"s1"}`)
	runtest.Equal(t, "owner", expect(200, "alice", "GET", s, "").Field("owner"), "alice")
	expect(200, "reader", "GET", s, "") // reaches all
	expect(404, "bob", "GET", s, "")
	expect(404, "bob", "PUT", s+"/grants/bob", `{"rights":["read"]}`)
	expect(403, "reader", "PUT", s+"/grants/bob", `{"rights":["read"]}`)
	expect(400, "alice", "PUT", s+"/grants/bob", `{}`)
	expect(400, "alice", "PUT", s+"/grants/bob", `{"rights":["command"]}`)
	expect(400, "alice", "PUT", s+"/grants/alice", `{"rights":["read"]}`)
	expect(204, "alice", "PUT", s+"/grants/bob", `{"rights":["write","read"]}`)
	expect(403, "bob", "PUT", s+"/grants/carol", `{"rights":["read"]}`)
	last := d.LastSeq("s1")
	expect(204, "alice", "PUT", s+"/grants/bob", `{"rights":["read","write"]}`)
	runtest.Equal(t, "commits after the same grant", d.LastSeq("s1"), last)
	runtest.Equal(t, "grants", expect(200, "bob", "GET", s, "").Field("grants"), "[map[rights:[read write] to:bob]]")
	expect(200, "bob", "POST", s+"/turns?wait=30", `{"text":"hi"}`)
	expect(403, "bob", "PATCH", s, `{"model":"m9"}`)

	watched := d.OpenStream("bob", s+"/events?cursor=1")
	watched.Until(func(m harness.Message) bool { return strings.Contains(m.Data, "turn.completed") })
	expect(204, "writer", "PUT", s+"/grants/bob", `{"rights":[]}`) // which reaches all, and may configure
	list := watched.Until(func(m harness.Message) bool { return m.Name == "problem" })
	if end := list[len(list)-2:]; !strings.Contains(end[0].Data, "session.granted") || !strings.Contains(end[1].Data, "no_session") {
		t.Errorf("got %v, want the grant that is taken back, and the end", end)
	}
	_, err := watched.Next()
	runtest.WantError(t, "after the end", err, io.EOF)
	expect(404, "bob", "GET", s, "")
	expect(404, "bob", "POST", s+"/turns", `{"text":"hi"}`)

	expect(204, "alice", "DELETE", s, "")
	expect(204, "alice", "PUT", s+"/grants/bob", `{"rights":["read"]}`) // of one that is closed
	for seen, err := range d.Observe(d.Ctx, "s1", 1) {                  // with its old grants
		runtest.WantError(t, "observe", err, nil)
		if seen.Seq == d.LastSeq("s1") {
			break
		}
	}
	again := d.OpenStream("bob", s+"/events?cursor=0")
	end := fmt.Sprint(d.LastSeq("s1"))
	again.Until(func(m harness.Message) bool { return m.ID == end }) // past the grant that was taken back
	again.Close()
}

// TestChildrenHaveTheirOwner makes sessions from others, in every way that HTTP has: they belong to the owner of
// the original, and the caller that made them keeps its rights of the original.
func TestChildrenHaveTheirOwner(t *testing.T) {
	t.Parallel()
	d := harness.StartIdle(t).ServeHTTP(httpapi.Config{})
	d.Open(api.CreateRequest{ID: "old"}) // without an owner
	runtest.Equal(t, "create", d.Send("alice", "POST", "/v1/sessions", `{"id":"s1"}`).Status, 201)
	ways := map[string]func(token, from, id string) harness.Response{
		"fork": func(token, from, id string) harness.Response {
			return d.Send(token, "POST", "/v1/sessions/"+from+"/fork", fmt.Sprintf(`{"id":%q}`, id))
		},
		"parent": func(token, from, id string) harness.Response {
			return d.Send(token, "POST", "/v1/sessions", fmt.Sprintf(`{"id":%q,"parent":%q}`, id, from))
		},
	}
	for name, make := range ways {
		for _, token := range []string{"alice", "writer"} {
			id := name + "-" + token
			runtest.Equal(t, id, make(token, "s1", id).Status, 201)
			runtest.Equal(t, "owner of "+id, d.StateOf(events.SessionID(id)).Owner, "alice")
			runtest.Equal(t, "grants of "+id, len(d.StateOf(events.SessionID(id)).Grants), 0)
		}
		runtest.Equal(t, name+" of an old one", make("writer", "old", name+"-old").Status, 201)
		runtest.Equal(t, "owner", d.StateOf(events.SessionID(name+"-old")).Owner, "")
		for _, from := range []string{"s1", "old", "nosuch"} {
			got := make("bob", from, name+"-bob")
			runtest.Equal(t, fmt.Sprint(name, " of ", from, " by another caller"), fmt.Sprint(got.Status, " ", got.Field("code")), "404 no_session")
		}
		runtest.WantError(t, "grant", d.Grant(d.Ctx, "s1", api.GrantRequest{To: "bob", Rights: []events.SessionRight{events.GrantRead}}), nil)
		runtest.Equal(t, name+" by a reader", make("bob", "s1", name+"-bob").Status, 403)
		runtest.WantError(t, "grant", d.Grant(d.Ctx, "s1", api.GrantRequest{To: "bob", Rights: []events.SessionRight{events.GrantRead, events.GrantWrite}}), nil)
		runtest.Equal(t, name+" by a writer", make("bob", "s1", name+"-bob").Status, 201)
		runtest.Equal(t, "owner", d.StateOf(events.SessionID(name+"-bob")).Owner, "alice")
		runtest.Equal(t, "what bob made", d.Send("bob", http.MethodGet, "/v1/sessions/"+name+"-bob", "").Status, 200)
		runtest.Equal(t, "bob in it", d.Send("bob", http.MethodPatch, "/v1/sessions/"+name+"-bob", `{"model":"x"}`).Status, 403)
		runtest.WantError(t, "revoke", d.Grant(d.Ctx, "s1", api.GrantRequest{To: "bob"}), nil)
	}
}
