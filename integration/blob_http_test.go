package integration

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/plugin"
)

// TestBodiesHaveWalls has a caller that knows the digest of another one's body:
// whatever it says in its own session, it gets that body only where its owner lets it in.
func TestBodiesHaveWalls(t *testing.T) {
	t.Parallel()
	d := setupIdle(t).door(httpapi.Config{})
	const hers, his = "/v1/sessions/hers", "/v1/sessions/his"
	expect := func(want int, token, method, path, body string) answered {
		t.Helper()
		got := d.ask(token, method, path, body)
		if got.status != want {
			t.Errorf("%s %s by %s: got %d %.200s, want %d", method, path, token, got.status, got.body, want)
		}
		return got
	}
	expect(201, "alice", "POST", "/v1/sessions", `{"id":"hers"}`)
	expect(201, "bob", "POST", "/v1/sessions", `{"id":"his"}`)
	stored := expect(201, "alice", "POST", hers+"/blobs", "what only alice knows")
	ref, blob := strings.TrimSpace(string(stored.body)), "/blobs/"+stored.text("digest")
	for path, body := range map[string]string{
		"/nodes": `{"nodes":[{"message":{"role":"user","parts":[{"type":"text","blob":` + ref + `}]}}]}`, "/inputs": `{"parts":[{"type":"text","blob":` + ref + `}]}`,
		"/turns": `{"parts":[{"type":"text","blob":` + ref + `}]}`, "/frames": `{"id":"f2","nodes":[{"message":{"role":"user","parts":[{"type":"text","blob":` + ref + `}]}}]}`,
	} {
		expect(404, "bob", "POST", his+path, body)
	}
	expect(400, "bob", "POST", "/v1/sessions", `{"nodes":[{"message":{"role":"user","parts":[{"type":"text","blob":`+ref+`}]}}]}`)
	expect(400, "bob", "POST", his+"/fork", `{"nodes":[{"message":{"role":"user","parts":[{"type":"text","blob":`+ref+`}]}}]}`)
	asSnapshot := func(of events.SessionID) string {
		digest := stored.text("digest")
		s := projector.New(of)
		must(t, "apply", s.Apply(events.Entry{Seq: 1, Commit: &events.Commit{Session: of, At: 1, Events: []events.Event{
			events.Of("", &events.SessionOpened{}), events.Of("", &events.GraphAppended{Nodes: []events.NewNode{{ID: "n1", Kind: events.NodeMessage, Message: events.Message{
				ID: "n1", Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Blob: events.BlobRef{Digest: digest, Size: 21}}},
			}}}}),
		}}}), nil)
		head, _, err := s.Snapshot()
		must(t, "snapshot", err, nil)
		return fmt.Sprintf(`{"start":"snapshot","snapshot":{"head":%q}}`, base64.StdEncoding.EncodeToString(head))
	}
	for _, of := range []events.SessionID{"hers", "his", "nosuch", "a.b", "", ">"} {
		expect(400, "bob", "POST", "/v1/sessions", asSnapshot(of))
	}
	expect(201, "alice", "POST", "/v1/sessions", asSnapshot("hers"))
	expect(200, "bob", "POST", his+"/nodes", fmt.Sprintf(`{"nodes":[{"message":{"role":"user","parts":[{"type":"text","text":%q}]}}]}`, ref))
	expect(404, "bob", "GET", his+blob, "")
	expect(404, "bob", "GET", hers+blob, "")
	expect(204, "alice", "PUT", hers+"/grants/bob", `{"rights":["write"]}`)
	expect(403, "bob", "GET", hers+blob, "")
	expect(204, "alice", "PUT", hers+"/grants/bob", `{"rights":["read"]}`)
	equal(t, "body", string(expect(200, "bob", "GET", hers+blob, "").body), "what only alice knows")
	expect(404, "bob", "GET", his+blob, "")
	expect(204, "alice", "PUT", hers+"/grants/bob", `{"rights":[]}`)
	expect(404, "bob", "GET", hers+blob, "")
}

// TestBodiesOfEverySize stores bodies up to the limit, and has a turn with one:
// the hook before it and the model read all of it.
func TestBodiesOfEverySize(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(text("read")))
	read := make(chan string, 1)
	b.node(declares("guard", func(r *plugin.Registrar) {
		r.BeforeTurn(func(_ context.Context, in plugin.TurnContext) ([]plugin.Directive, error) {
			read <- in.Input.Parts[0].Text
			return nil, nil
		})
	}))
	d := b.door(httpapi.Config{})
	const s = "/v1/sessions/s1"
	d.want(201, "POST", "/v1/sessions", `{"id":"s1"}`)
	for _, size := range []int{1, 70_000, events.MaxBlobBytes} {
		body := strings.Repeat("b", size)
		stored := d.want(201, "POST", s+"/blobs", body)
		if got := d.ask("reader", "GET", stored.header.Get("Location"), ""); got.status != 200 || !bytes.Equal(got.body, []byte(body)) {
			t.Errorf("%d bytes: got %d and %d bytes", size, got.status, len(got.body))
		}
		if size == 70_000 {
			d.want(200, "POST", s+"/turns?wait=60", `{"parts":[{"type":"text","blob":`+strings.TrimSpace(string(stored.body))+`}]}`)
			equal(t, "input that the hook reads", len(receive(b, "the hook", read)), size)
			equal(t, "prompt", len(b.model.asked()[0].Messages[0].Text()), size)
		}
	}
	d.refused(413, "body_too_large", "POST", s+"/blobs", strings.Repeat("b", events.MaxBlobBytes+1))
}
