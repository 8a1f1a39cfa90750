package integration

import (
	"context"
	"errors"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

func childEntries() []entry {
	return []entry{
		{
			"T29", "child turns that use tokens, awaited or not, and a process that is killed during one", "the parent's report",
			"an entry under the usage source; the sum is the child's total", testChildUsage,
		},
	}
}

// delegates has a tool that runs a turn of a child, which may be there already.
func delegates() plugin.Factory {
	return declares("delegates", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "delegate", Effects: events.EffectsIdempotent}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			_, err := c.Host.CreateSession(ctx, api.CreateRequest{
				ID: "helper", Relation: events.RelationChild, Usage: "research", Config: events.Config{Model: "large"},
			})
			if err != nil && !errors.Is(err, api.ErrExists) {
				return "", err
			}
			got, err := c.Host.StartTurn(ctx, "helper", api.TurnRequest{ID: events.TurnID(c.Effect[:2]), Input: events.TurnInput{Parts: []events.Part{text("help")}}})
			return got.Output.SafeText, err
		})
	})
}

func testChildUsage(t *testing.T) {
	begun := make(chan struct{})
	used := func(s string) step {
		return stopped(events.StopEnd, events.Usage{Input: 3, Output: 2, CacheRead: 1}, text(s))
	}
	ask := reply(call("k", "delegate", "{}"))
	b := setupListening(t, ask, hangs(begun), used("one"), reply(text("done")), ask, used("two"), reply(text("done")), used("three"), used("four"))
	kill := b.process("delegates", nil)
	id := b.open(api.CreateRequest{Config: events.Config{Model: "small"}})
	b.submit(id, "t1", text("go"))
	receive(b, "begun", begun)
	kill()
	b.node(delegates())
	b.ended(id, "t1")
	b.run(id, "t2", text("again"))
	want := []projector.LedgerEntry{
		{Source: "research", Model: "large", Usage: events.Usage{Input: 6, Output: 4, CacheRead: 2}},
		row("turn", "small", 40, 20),
	}
	equalLists(t, "report", b.state(id).Usage().Entries, want)
	equal(t, "sum of the source", b.state(id).Usage().BySource["research"], b.state("helper").Usage().Total)

	b.submit("helper", "t3", text("nobody waits")) // asked for by a host
	s := b.await(id, "charge of a turn that nobody awaits", func(s *projector.State) bool { return s.Usage().BySource["research"].Input == 9 })
	equal(t, "sum", s.Usage().BySource["research"], b.state("helper").Usage().Total)
	equal(t, "total", s.Usage().Total, s.Usage().BySource["research"].Add(s.Usage().BySource["turn"]))

	other := b.open(api.CreateRequest{Parent: id, Config: events.Config{Model: "small"}}) // that names no source
	b.run(other, "t1", text("hello"))
	b.await(id, "charge under the usual source", func(s *projector.State) bool {
		return s.Usage().BySource["child"] == events.Usage{Input: 3, Output: 2, CacheRead: 1}
	})
}
