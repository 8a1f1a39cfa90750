package system

import (
	"context"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/hint"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// TestAgentsTakeNoPlaces has a node with one place, agents that hold theirs, and more that wait for it: turns of other sessions run
// meanwhile.
func TestAgentsTakeNoPlaces(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	held, release := make(chan struct{}, 16), make(chan struct{})
	n, err := agentNode(b.T, bustest.Open(t, b.Server), 1, func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		if req.Messages[len(req.Messages)-1].Text() == "0 ." {
			held <- struct{}{}
			<-release
		}
		return delegating(ctx, req)
	})
	runtest.WantError(t, "node", err, nil)
	b.Launch(n)
	root := b.Open(api.CreateRequest{})
	b.StartTurn(root, "t1", harness.Text("8 0"))
	harness.Receive(b, "an agent that holds its place", held)
	for range 3 {
		runtest.Equal(t, "neighbour", b.RunTurn(b.Open(api.CreateRequest{}), "t1", harness.Text("0")).Text, "done")
	}
	runtest.Equal(t, "agents at once", len(held), 0)
	for _, task := range b.Subagents(root) {
		runtest.WantError(t, "a wake of a program that knows no states", b.Bus.StoreWake(b.Ctx, hint.FallbackKey(task.Child), bus.WakeHint{}), nil)
	}
	harness.Receive(b, "an agent that such a wake started", held)
	runtest.Equal(t, "neighbour", b.RunTurn(b.Open(api.CreateRequest{}), "t1", harness.Text("0")).Text, "done")
	close(release)
	runtest.Equal(t, "end", b.AwaitTurn(root, "t1").End, events.EndFinished)
	b.Verify(root)
	b.AwaitPolling("no wake is left", func() bool { return len(b.Wakes()) == 0 })
}
