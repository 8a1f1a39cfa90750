package system

import (
	"context"
	"fmt"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/subagent"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// TestFleetWaitingTurnLeavesItsSlot has as many sessions as a node runs at once call an agent each, and wait for it, three levels
// deep. An agent's turn needs a slot; a turn that waits for an agent has none.
func TestFleetWaitingTurnLeavesItsSlot(t *testing.T) {
	t.Parallel()
	for _, places := range []int{1, 4} {
		t.Run(fmt.Sprint(places), func(t *testing.T) {
			t.Parallel()
			f := harness.StartFleet(t)
			f.Reply = func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
				state, err := f.State(ctx, req.Session)
				if err != nil {
					return scripted.Answer{}, err
				}
				if state.Subagent.Depth < 2 && len(req.Messages) == 1 {
					return harness.Reply(harness.Call("c1", "spawn_agent", `{"capability":"explore","task":"have somebody work"}`))(ctx, req)
				}
				return harness.Reply(harness.Text("done"))(ctx, req)
			}
			builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: workers.Builtins(), Factories: []plugin.Factory{subagent.Factory(subagent.Config{})}})
			runtest.WantError(t, "plugins", err, nil)
			f.Join(workers.Config{Concurrency: places, Plugins: builder})
			for n := range places {
				id := f.Open(api.CreateRequest{ID: events.SessionID(fmt.Sprintf("s%d", n))})
				f.StartTurn(id, "t1", harness.Text("go"))
			}
			for n := range places {
				id := events.SessionID(fmt.Sprintf("s%d", n))
				runtest.Equal(t, "end", f.AwaitTurn(id, "t1").End, events.EndFinished)
				runtest.Equal(t, "agents", len(harness.Find[*events.TaskRegistered](f.System, id)), 1)
			}
			// The slots are free again, and there are no more than before.
			f.Open(api.CreateRequest{ID: "last"})
			f.StartTurn("last", "t1", harness.Text("go"))
			runtest.Equal(t, "end", f.AwaitTurn("last", "t1").End, events.EndFinished)
		})
	}
}
