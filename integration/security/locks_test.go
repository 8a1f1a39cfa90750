package security

import (
	"context"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/lock"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/gate"
)

// locked starts a node with many locked settings, and a tool that must not run twice.
func locked(b *harness.System) (n *workers.Node, ran *int) {
	b.T.Helper()
	ran = new(int)
	risky := harness.PluginOf("risky", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "wipe"}, func(_ context.Context, _ plugin.Call, _ struct{}) (string, error) { *ran++; return "wiped", nil })
	})
	return b.StartNodeWith(workers.Config{Locks: lock.Locks{
		Plugins: []string{gate.ID}, Providers: []string{"scripted"}, Models: []string{"small-*"}, Protocols: []string{"standard"},
		MaxIterations: 3, MaxOutputTokens: 100, LeastRetain: time.Hour,
	}}, plugin.BuilderConfig{Builtins: workers.Builtins(), Factories: []plugin.Factory{risky, gate.Factory(gate.Config{})}}), ran
}

// TestLocksOfOldSessions has sessions that are older than the locks, or were made by a host without them: the node
// that runs their turns applies the locks.
func TestLocksOfOldSessions(t *testing.T) {
	t.Parallel()
	again := harness.Reply(harness.Call("k", "none", `{}`))
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "wipe", `{}`)), again, again, again, again)
	big := b.Open(api.CreateRequest{Config: events.Config{Model: "large-1"}})
	old := b.Open(api.CreateRequest{Options: map[string]string{gate.ID: `{"allow":["*"]}`}})
	_, ran := locked(b)
	issue := b.FailedTurn(big, "t1")
	runtest.Equal(t, "code", issue.Code, "forbidden")
	runtest.Contains(t, "issue", issue.Message, "config.model: ")
	b.ParkTurn(old) // the gate asks, though the session's options let everything run
	runtest.Equal(t, "runs", *ran, 0)
	runtest.WantError(t, "approve", b.AnswerApproval(b.Host, old, false), nil)
	runtest.Equal(t, "end", b.AwaitTurn(old, "t1").End, events.EndMaxTurns)
	runtest.Equal(t, "limit", b.StateOf(old).Config.MaxIterations, 3)
	runtest.Equal(t, "calls of the model", len(b.Model.Requests()), 3)
}

// TestDenyHolds has a session with rules of its own: files that the node denies stay denied.
func TestDenyHolds(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "wipe", `{}`)), harness.Reply(harness.Text("ok")))
	ran := 0
	b.StartNode(harness.PluginOf("risky", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "wipe"}, func(_ context.Context, _ plugin.Call, _ struct{}) (string, error) { ran++; return "wiped", nil })
	}), gate.Factory(gate.Config{Options: gate.Options{Deny: []string{"wipe"}}}))
	id := b.Open(api.CreateRequest{Options: map[string]string{gate.ID: `{"allow":["*"]}`}})
	b.RunTurn(id, "t1", harness.Text("go"))
	runtest.Equal(t, "runs", ran, 0)
}
