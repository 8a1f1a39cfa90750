package system

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/plugin"
)

// TestBodiesNeedAGrant has a caller that knows the digest of another caller's body. No request in its own session
// returns that body without a grant of the owner.
func TestBodiesNeedAGrant(t *testing.T) {
	t.Parallel()
	d := harness.StartIdle(t).ServeHTTP(httpapi.Config{})
	const hers, his = "/v1/sessions/hers", "/v1/sessions/his"
	expect := func(want int, token, method, path, body string) harness.Response {
		t.Helper()
		got := d.Send(token, method, path, body)
		if got.Status != want {
			t.Errorf("%s %s by %s: got %d %.200s, want %d", method, path, token, got.Status, got.Body, want)
		}
		return got
	}
	expect(201, "alice", "POST", "/v1/sessions", `{"id":"hers"}`)
	expect(201, "bob", "POST", "/v1/sessions", `{"id":"his"}`)
	stored := expect(201, "alice", "POST", hers+"/blobs", "what only alice knows")
	ref, blob := strings.TrimSpace(string(stored.Body)), "/blobs/"+stored.Field("digest")
	for path, body := range map[string]string{
		"/nodes": `{"nodes":[{"message":{"role":"user","parts":[{"type":"text","blob":` + ref + `}]}}]}`, "/inputs": `{"parts":[{"type":"text","blob":` + ref + `}]}`,
		"/turns": `{"parts":[{"type":"text","blob":` + ref + `}]}`, "/frames": `{"id":"f2","nodes":[{"message":{"role":"user","parts":[{"type":"text","blob":` + ref + `}]}}]}`,
	} {
		expect(404, "bob", "POST", his+path, body)
	}
	expect(400, "bob", "POST", "/v1/sessions", `{"nodes":[{"message":{"role":"user","parts":[{"type":"text","blob":`+ref+`}]}}]}`)
	expect(400, "bob", "POST", his+"/fork", `{"nodes":[{"message":{"role":"user","parts":[{"type":"text","blob":`+ref+`}]}}]}`)
	asSnapshot := func(of events.SessionID) string {
		digest := stored.Field("digest")
		s := projector.New(of)
		runtest.WantError(t, "apply", s.Apply(events.Entry{Seq: 1, Commit: &events.Commit{Session: of, At: 1, Events: []events.Event{
			events.Of("", &events.SessionOpened{}), events.Of("", &events.GraphAppended{Nodes: []events.NewNode{{ID: "n1", Kind: events.NodeMessage, Message: events.Message{
				ID: "n1", Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Blob: events.BlobRef{Digest: digest, Size: 21}}},
			}}}}),
		}}}), nil)
		head, _, err := s.Snapshot()
		runtest.WantError(t, "snapshot", err, nil)
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
	runtest.Equal(t, "body", string(expect(200, "bob", "GET", hers+blob, "").Body), "what only alice knows")
	expect(404, "bob", "GET", his+blob, "")
	expect(204, "alice", "PUT", hers+"/grants/bob", `{"rights":[]}`)
	expect(404, "bob", "GET", hers+blob, "")
}

// TestBodiesOfEverySize stores bodies up to the limit, and has a turn with one:
// the hook before it and the model read all of it.
func TestBodiesOfEverySize(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Text("read")))
	read := make(chan string, 1)
	b.StartNode(harness.PluginOf("guard", func(r *plugin.Registrar) {
		r.BeforeTurn(func(_ context.Context, in plugin.TurnContext) ([]plugin.Directive, error) {
			read <- in.Input.Parts[0].Text
			return nil, nil
		})
	}))
	d := b.ServeHTTP(httpapi.Config{})
	const s = "/v1/sessions/s1"
	d.Want(201, "POST", "/v1/sessions", `{"id":"s1"}`)
	for _, size := range []int{1, 70_000, events.MaxBlobBytes} {
		body := strings.Repeat("b", size)
		stored := d.Want(201, "POST", s+"/blobs", body)
		if got := d.Send("reader", "GET", stored.Header.Get("Location"), ""); got.Status != 200 || !bytes.Equal(got.Body, []byte(body)) {
			t.Errorf("%d bytes: got %d and %d bytes", size, got.Status, len(got.Body))
		}
		if size == 70_000 {
			d.Want(200, "POST", s+"/turns?wait=60", `{"parts":[{"type":"text","blob":`+strings.TrimSpace(string(stored.Body))+`}]}`)
			runtest.Equal(t, "input that the hook reads", len(harness.Receive(b, "the hook", read)), size)
			runtest.Equal(t, "prompt", len(b.Model.Requests()[0].Messages[0].Text()), size)
		}
	}
	d.WantProblem(413, "body_too_large", "POST", s+"/blobs", strings.Repeat("b", events.MaxBlobBytes+1))
}
