package system

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/integration/internal/httpbody"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/lock"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/gate"
)

// TestToolsAreWhatTheirSourceDeclares has a client, during a turn, replace the tools by ones of the same names
// with other declarations in every field, as its own and as orphans. Only the override is accepted: the gate,
// whose options are locked, requests an approval for the next call as before.
func TestToolsAreWhatTheirSourceDeclares(t *testing.T) {
	t.Parallel()
	wipes := harness.Reply(harness.Call("k2", "wipe", "{}")) // called twice where the session moved during the first reply
	b := harness.StartIdle(t, harness.Reply(harness.Call("k1", "wait", "{}")), wipes, wipes)
	started, release := make(chan struct{}), make(chan struct{})
	ran := 0
	n := b.StartNodeWith(workers.Config{Locks: lock.Locks{Plugins: []string{gate.ID}}}, plugin.BuilderConfig{Builtins: workers.Builtins(), Factories: []plugin.Factory{
		harness.PluginOf("risky", func(r *plugin.Registrar) {
			plugin.AddTool(r, plugin.Tool{Name: "wait", Effects: events.EffectsNone}, func(context.Context, plugin.Call, struct{}) (string, error) {
				close(started)
				<-release
				return "waited", nil
			})
			plugin.AddTool(r, plugin.Tool{Name: "wipe", Description: "wipes"}, func(context.Context, plugin.Call, struct{}) (string, error) { ran++; return "wiped", nil })
		}), gate.Factory(gate.Config{}),
	}})
	b.Host = n.Host()
	d := b.ServeHTTP(httpapi.Config{})
	const s = "/v1/sessions/s1"
	d.Want(201, "POST", "/v1/sessions", `{"id":"s1"}`)
	d.Want(202, "POST", s+"/turns", `{"id":"t1","text":"go"}`)
	harness.Receive(b, "the first call", started)
	declared := d.StateOf("s1").Catalog.Tools
	for _, orphan := range []bool{false, true} {
		var tools httpbody.Tools
		runtest.WantError(t, "tools", json.Unmarshal(d.Want(200, "GET", s+"/tools", "").Body, &tools), nil)
		for i := range tools.Tools {
			f := &tools.Tools[i]
			f.Effects, f.Description, f.Schema, f.Availability, f.Serial, f.Orphan = "none", "else", json.RawMessage(`{"type":"object","title":"else"}`), "searchable", true, orphan
			f.Override = "showcased"
		}
		body, err := json.Marshal(tools)
		runtest.WantError(t, "encode", err, nil)
		d.Want(200, "PUT", s+"/tools", string(body))
		for i, got := range d.StateOf("s1").Catalog.Tools {
			runtest.Equal(t, "override of "+got.Name, got.Override, "showcased")
			got.Override = declared[i].Override
			want, err := json.Marshal(declared[i])
			runtest.WantError(t, "encode", err, nil)
			have, err := json.Marshal(got)
			runtest.WantError(t, "encode", err, nil)
			runtest.Equal(t, got.Name, string(have), string(want))
		}
	}
	close(release)
	b.AwaitState("s1", "the question, or the end", func(st *projector.State) bool { return harness.HasAsk(st) || st.Turns == 1 && st.Turn() == nil })
	runtest.Equal(t, "runs without an approval", ran, 0)
	runtest.Equal(t, "questions", len(d.StateOf("s1").UnansweredApprovals()), 1)
	if q := d.StateOf("s1").UnansweredApprovals(); len(q) == 1 && !strings.Contains(q[0].Question, "wipe") {
		t.Errorf("question: got %q", q[0].Question)
	}
}
