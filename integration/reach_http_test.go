package integration

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
)

// outcome is what a token gets: the status, and the code of a problem. Of a stream it takes no event.
func (d *door) outcome(token, method, path, body string, header ...string) (status int, answer string) {
	d.t.Helper()
	got, err := d.client.Do(d.request(token, method, path, body, header...))
	must(d.t, method+" "+path, err, nil)
	defer func() { _ = got.Body.Close() }()
	if strings.HasPrefix(got.Header.Get("Content-Type"), "text/event-stream") {
		return got.StatusCode, "stream"
	}
	data, err := io.ReadAll(got.Body)
	must(d.t, method+" "+path, err, nil)
	return got.StatusCode, string(data)
}

// inSession are the operations of the document that name a session.
func (d *door) inSession() (list []documented) {
	for _, op := range d.doc.operations() {
		if strings.Contains(op.path, "{session}") {
			list = append(list, op)
		}
	}
	return list
}

// TestReachOverHTTP has a caller ask for every operation that names a session,
// in one that it does not reach: each is answered as for one that there is none
// of, and leaves nothing. With grants of every kind it gets what these say.
func TestReachOverHTTP(t *testing.T) {
	t.Parallel()
	d := setupIdle(t).door(httpapi.Config{})
	granted := [][]events.SessionRight{
		{}, {"read"}, {"write"}, {"approve"}, {"read", "write"}, {"read", "approve"}, {"approve", "write"}, {"read", "write", "approve"},
	}
	for n, op := range d.inSession() {
		for m, rights := range granted {
			id := events.SessionID(fmt.Sprintf("s-%d-%d", n, m))
			equal(t, "create", d.ask("alice", "POST", "/v1/sessions", fmt.Sprintf(`{"id":%q}`, id)).status, 201)
			must(t, "grant", d.Grant(d.ctx, id, api.GrantRequest{To: "bob", Rights: rights}), nil)
			before := d.last(id)
			key := []string{"Idempotency-Key", string(id)} // the id of what is made
			status, answer := d.outcome("bob", op.method, at(op.path, string(id))+query(op.id), validBodies()[op.id], key...)
			what := fmt.Sprintf("%s with a grant of %v", op.id, rights)
			switch {
			case len(rights) == 0:
				want, none := d.outcome("bob", op.method, at(op.path, "nosuch")+query(op.id), validBodies()[op.id], "Idempotency-Key", "nosuch")
				equal(t, what, fmt.Sprint(status, answer), fmt.Sprint(want, strings.ReplaceAll(none, "nosuch", string(id))))
			case slices.Contains(rights, events.SessionRight(op.right)):
				if status == 403 || strings.Contains(answer, `"no_session"`) {
					t.Errorf("%s: got %d %s, want it allowed", what, status, answer)
				}
				continue
			default:
				equal(t, what, fmt.Sprint(status, strings.Contains(answer, `"code":"forbidden"`)), "403 true")
			}
			equal(t, "commits after "+what, d.last(id), before)
		}
	}
}

// TestGrantOverHTTP follows a session's owner, who lets another caller in and
// out again. The other one sees what it is granted, watches until it is taken
// back, and takes nothing with it.
func TestGrantOverHTTP(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(text("hello")))
	b.node()
	d := b.door(httpapi.Config{})
	const s = "/v1/sessions/s1"
	expect := func(want int, token, method, path, body string) answered {
		t.Helper()
		got := d.ask(token, method, path, body)
		if got.status != want {
			t.Fatalf("%s %s %s by %s: got %d %s, want %d", method, path, body, token, got.status, got.body, want)
		}
		return got
	}
	expect(201, "alice", "POST", "/v1/sessions", `{"id":"s1"}`)
	equal(t, "owner", expect(200, "alice", "GET", s, "").text("owner"), "alice")
	expect(200, "reader", "GET", s, "") // reaches all
	expect(404, "bob", "GET", s, "")
	expect(404, "bob", "PUT", s+"/grants/bob", `{"rights":["read"]}`)
	expect(403, "reader", "PUT", s+"/grants/bob", `{"rights":["read"]}`)
	expect(400, "alice", "PUT", s+"/grants/bob", `{}`)
	expect(400, "alice", "PUT", s+"/grants/bob", `{"rights":["command"]}`)
	expect(400, "alice", "PUT", s+"/grants/alice", `{"rights":["read"]}`)
	expect(204, "alice", "PUT", s+"/grants/bob", `{"rights":["write","read"]}`)
	expect(403, "bob", "PUT", s+"/grants/carol", `{"rights":["read"]}`)
	last := d.last("s1")
	expect(204, "alice", "PUT", s+"/grants/bob", `{"rights":["read","write"]}`)
	equal(t, "commits after the same grant", d.last("s1"), last)
	equal(t, "grants", expect(200, "bob", "GET", s, "").text("grants"), "[map[rights:[read write] to:bob]]")
	expect(200, "bob", "POST", s+"/turns?wait=30", `{"text":"hi"}`)
	expect(403, "bob", "PATCH", s, `{"model":"m9"}`)

	watched := d.stream("bob", s+"/events?cursor=1")
	watched.until(func(m received) bool { return strings.Contains(m.data, "turn.completed") })
	expect(204, "writer", "PUT", s+"/grants/bob", `{"rights":[]}`) // which reaches all, and may configure
	list := watched.until(func(m received) bool { return m.name == "problem" })
	if end := list[len(list)-2:]; !strings.Contains(end[0].data, "session.granted") || !strings.Contains(end[1].data, "no_session") {
		t.Errorf("got %v, want the grant that is taken back, and the end", end)
	}
	_, err := watched.next()
	must(t, "after the end", err, io.EOF)
	expect(404, "bob", "GET", s, "")
	expect(404, "bob", "POST", s+"/turns", `{"text":"hi"}`)

	expect(204, "alice", "DELETE", s, "")
	expect(204, "alice", "PUT", s+"/grants/bob", `{"rights":["read"]}`) // of one that is closed
	for seen, err := range d.Observe(d.ctx, "s1", 1) {                  // with its old grants
		must(t, "observe", err, nil)
		if seen.Seq == d.last("s1") {
			break
		}
	}
	again := d.stream("bob", s+"/events?cursor=0")
	end := fmt.Sprint(d.last("s1"))
	again.until(func(m received) bool { return m.id == end }) // past the grant that was taken back
	again.close()
}

// TestChildrenHaveTheirOwner makes sessions from others, in every way that HTTP
// has: they belong to the owner of the one that they began from, and the caller
// that made them keeps what it may there.
func TestChildrenHaveTheirOwner(t *testing.T) {
	t.Parallel()
	d := setupIdle(t).door(httpapi.Config{})
	d.open(api.CreateRequest{ID: "old"}) // made by nobody in particular
	equal(t, "create", d.ask("alice", "POST", "/v1/sessions", `{"id":"s1"}`).status, 201)
	ways := map[string]func(token, from, id string) answered{
		"fork": func(token, from, id string) answered {
			return d.ask(token, "POST", "/v1/sessions/"+from+"/fork", fmt.Sprintf(`{"id":%q}`, id))
		},
		"parent": func(token, from, id string) answered {
			return d.ask(token, "POST", "/v1/sessions", fmt.Sprintf(`{"id":%q,"parent":%q}`, id, from))
		},
	}
	for name, make := range ways {
		for _, token := range []string{"alice", "writer"} {
			id := name + "-" + token
			equal(t, id, make(token, "s1", id).status, 201)
			equal(t, "owner of "+id, d.state(events.SessionID(id)).Owner, "alice")
			equal(t, "grants of "+id, len(d.state(events.SessionID(id)).Grants), 0)
		}
		equal(t, name+" of an old one", make("writer", "old", name+"-old").status, 201)
		equal(t, "owner", d.state(events.SessionID(name+"-old")).Owner, "")
		for _, from := range []string{"s1", "old", "nosuch"} {
			got := make("bob", from, name+"-bob")
			equal(t, fmt.Sprint(name, " of ", from, " by another caller"), fmt.Sprint(got.status, " ", got.text("code")), "404 no_session")
		}
		must(t, "grant", d.Grant(d.ctx, "s1", api.GrantRequest{To: "bob", Rights: []events.SessionRight{events.GrantRead}}), nil)
		equal(t, name+" by a reader", make("bob", "s1", name+"-bob").status, 403)
		must(t, "grant", d.Grant(d.ctx, "s1", api.GrantRequest{To: "bob", Rights: []events.SessionRight{events.GrantRead, events.GrantWrite}}), nil)
		equal(t, name+" by a writer", make("bob", "s1", name+"-bob").status, 201)
		equal(t, "owner", d.state(events.SessionID(name+"-bob")).Owner, "alice")
		equal(t, "what bob made", d.ask("bob", http.MethodGet, "/v1/sessions/"+name+"-bob", "").status, 200)
		equal(t, "bob in it", d.ask("bob", http.MethodPatch, "/v1/sessions/"+name+"-bob", `{"model":"x"}`).status, 403)
		must(t, "revoke", d.Grant(d.ctx, "s1", api.GrantRequest{To: "bob"}), nil)
	}
}
