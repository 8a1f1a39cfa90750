package integration

import (
	"context"
	"fmt"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/subagent"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// TestFleetWaits has as many sessions as a node runs at once ask an agent each,
// and wait for it, three deep: an agent's turn needs a place, which those that
// wait for it do not keep.
func TestFleetWaits(t *testing.T) {
	t.Parallel()
	for _, places := range []int{1, 4} {
		t.Run(fmt.Sprint(places), func(t *testing.T) {
			t.Parallel()
			f := setupFleet(t)
			f.answer = func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
				state, err := f.State(ctx, req.Session)
				if err != nil {
					return scripted.Answer{}, err
				}
				if state.Subagent.Depth < 2 && len(req.Messages) == 1 {
					return reply(call("c1", "spawn_agent", `{"capability":"explore","task":"have somebody work"}`))(ctx, req)
				}
				return reply(text("done"))(ctx, req)
			}
			stack, err := plugin.NewHost(plugin.HostConfig{Builtins: workers.Builtins(), Factories: []plugin.Factory{subagent.Factory(subagent.Config{})}})
			must(t, "plugins", err, nil)
			f.join(workers.Config{Concurrency: places, Plugins: stack})
			for n := range places {
				id := f.open(api.CreateRequest{ID: events.SessionID(fmt.Sprintf("s%d", n))})
				f.submit(id, "t1", text("go"))
			}
			for n := range places {
				id := events.SessionID(fmt.Sprintf("s%d", n))
				equal(t, "end", f.ended(id, "t1").End, events.EndFinished)
				equal(t, "agents", len(find[*events.TaskRegistered](f.bundle, id)), 1)
			}
			// The places are there again, and no more than they were.
			f.open(api.CreateRequest{ID: "last"})
			f.submit("last", "t1", text("go"))
			equal(t, "end", f.ended("last", "t1").End, events.EndFinished)
		})
	}
}
