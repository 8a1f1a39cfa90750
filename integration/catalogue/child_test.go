package catalogue

import (
	"context"
	"errors"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

func childEntries() []entry {
	return []entry{
		{
			"T29", "usage of children is in the report of the parent", "child turns that use tokens, awaited or not, and a process that is killed during one", "the parent's report",
			"an entry under the usage source; the sum is the child's total", testChildUsage,
		},
	}
}

// delegates is a plugin with a tool that runs a turn of a child. The child may exist already.
func delegates() plugin.Factory {
	return harness.PluginOf("delegates", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "delegate", Effects: events.EffectsIdempotent}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			_, err := c.Host.CreateSession(ctx, api.CreateRequest{
				ID: "helper", Relation: events.RelationChild, Usage: "research", Config: events.Config{Model: "large"},
			})
			if err != nil && !errors.Is(err, api.ErrExists) {
				return "", err
			}
			got, err := c.Host.StartTurn(ctx, "helper", api.TurnRequest{ID: events.TurnID(c.Effect[:2]), Input: events.TurnInput{Parts: []events.Part{harness.Text("help")}}})
			return got.Output.SafeText, err
		})
	})
}

func testChildUsage(t *testing.T) {
	started := make(chan struct{})
	used := func(s string) harness.Step {
		return harness.ReplyStopped(events.StopEnd, events.Usage{Input: 3, Output: 2, CacheRead: 1}, harness.Text(s))
	}
	ask := harness.Reply(harness.Call("k", "delegate", "{}"))
	b := setupListening(t, ask, harness.Hang(started), used("one"), harness.Reply(harness.Text("done")), ask, used("two"), harness.Reply(harness.Text("done")), used("three"), used("four"))
	kill := process(b, "delegates", nil)
	id := b.Open(api.CreateRequest{Config: events.Config{Model: "small"}})
	b.StartTurn(id, "t1", harness.Text("go"))
	harness.Receive(b, "the start", started)
	kill()
	b.StartNode(delegates())
	b.AwaitTurn(id, "t1")
	b.RunTurn(id, "t2", harness.Text("again"))
	want := []projector.LedgerEntry{
		{Source: "research", Model: "large", Usage: events.Usage{Input: 6, Output: 4, CacheRead: 2}},
		harness.LedgerRow("turn", "small", 40, 20),
	}
	runtest.EqualLists(t, "report", b.StateOf(id).Usage().Entries, want)
	runtest.Equal(t, "sum of the source", b.StateOf(id).Usage().BySource["research"], b.StateOf("helper").Usage().Total)

	b.StartTurn("helper", "t3", harness.Text("nobody waits")) // requested by a host
	s := b.AwaitState(id, "charge of a turn that nobody awaits", func(s *projector.State) bool { return s.Usage().BySource["research"].Input == 9 })
	runtest.Equal(t, "sum", s.Usage().BySource["research"], b.StateOf("helper").Usage().Total)
	runtest.Equal(t, "total", s.Usage().Total, s.Usage().BySource["research"].Add(s.Usage().BySource["turn"]))

	other := b.Open(api.CreateRequest{Parent: id, Config: events.Config{Model: "small"}}) // that names no source
	b.RunTurn(other, "t1", harness.Text("hello"))
	b.AwaitState(id, "charge under the usual source", func(s *projector.State) bool {
		return s.Usage().BySource["child"] == events.Usage{Input: 3, Output: 2, CacheRead: 1}
	})
}
