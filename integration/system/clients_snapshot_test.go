package system

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/plugin"
)

// TestSmokeSnapshotOverHTTP reads snapshots over HTTP, and creates sessions from them: of a short conversation, and of one with segments,
// which is larger than other requests may be.
func TestSmokeSnapshotOverHTTP(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	d := b.ServeHTTP(httpapi.Config{Tokens: []httpapi.Token{{Name: "plain", Digest: sha256.Sum256([]byte("plain" + harness.TokenSecret)), Scope: "read,write"}}})
	for _, count := range []int{2, 200} {
		var nodes []api.AppendNode
		for range count {
			nodes = append(nodes, api.AppendNode{Message: &events.Message{Role: events.RoleUser, Parts: []events.Part{harness.Text(strings.Repeat("x", 40*count))}}})
		}
		id := b.Open(api.CreateRequest{Nodes: nodes, Labels: map[string]string{"k": "v"}})
		got := d.Send("reader", "GET", "/v1/sessions/"+string(id)+"/snapshot", "")
		runtest.Equal(t, "status", got.Status, 200)
		runtest.Equal(t, "it has more than other requests may", len(got.Body) > 1<<20, count == 200)
		var snapshot struct{ Segments [][]byte }
		runtest.WantError(t, "snapshot", json.Unmarshal(got.Body, &snapshot), nil)
		runtest.Equal(t, "it has segments", len(snapshot.Segments) > 0, count >= 64)
		runtest.WantError(t, "close", b.CloseSession(b.Ctx, id, "over"), nil) // the snapshot is of before
		again := d.Send("reader", "GET", "/v1/sessions/"+string(id)+"/snapshot", "")
		runtest.Equal(t, "a later snapshot is another one", bytes.Equal(got.Body, again.Body), false)

		copied := events.SessionID(fmt.Sprintf("copy-%d", count))
		body := fmt.Sprintf(`{"id":%q,"start":"snapshot","snapshot":%s}`, copied, got.Body)
		runtest.Equal(t, "status of one who may not configure", d.Send("plain", "POST", "/v1/sessions", body).Status, map[int]int{2: 403, 200: 413}[count])
		runtest.Equal(t, "status of a copy", d.Send("admin", "POST", "/v1/sessions", body).Status, 201)
		runtest.EqualLists(t, "messages of the copy", b.Messages(copied), b.Messages(id))
		d.Want(404, "GET", "/v1/sessions/nosuch/snapshot", "")
	}
}

// TestSnapshotOfPlugins has a tool read the snapshot of another session and of its own, and create a session from each. Bodies outside the
// log are whole.
func TestSnapshotOfPlugins(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "copy", "{}")), harness.Reply(harness.Text("done")))
	large := strings.Repeat("large ", 64<<10)
	other := b.Open(api.CreateRequest{Nodes: []api.AppendNode{
		{Message: &events.Message{ID: "a", Role: events.RoleUser, Parts: []events.Part{harness.Text("small")}}}, {Message: &events.Message{ID: "b", Role: events.RoleUser, Parts: []events.Part{harness.Text(large)}}},
	}})
	b.StartNode(harness.PluginOf("p", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "copy"}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			for id, of := range map[events.SessionID]events.SessionID{"copy-other": other, "copy-own": c.Session} {
				s, err := c.Host.SnapshotSession(ctx, of)
				if err == nil {
					_, err = c.Host.CreateSession(ctx, api.CreateRequest{ID: id, Start: api.StartSnapshot, Snapshot: s})
				}
				if err != nil {
					return "", err
				}
			}
			s, err := c.Host.SnapshotSession(ctx, "copy-other")
			if err != nil {
				return "", err
			}
			v, err := s.View()
			return fmt.Sprint(len(v.Messages) == 2 && v.Messages[1].Text() == large), err
		})
	}))
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("go"))
	runtest.Equal(t, "the copy has the large message", b.CallResult(id, "k"), "true")
	runtest.EqualLists(t, "messages of the other one", b.Messages("copy-other"), b.Messages(other))
	runtest.Equal(t, "first message of its own", b.Messages("copy-own")[0], "user go")
}
