package system

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// delegating is a model that starts agents as its task says: the task "3 2" starts three agents with the task "2", each of which starts
// two with an empty one, which answer.
func delegating(_ context.Context, req llm.Request) (scripted.Answer, error) {
	last := req.Messages[len(req.Messages)-1]
	for i := range last.Parts {
		if last.Parts[i].Kind == events.PartToolResult {
			return scripted.Answer{Response: llm.Response{Parts: []events.Part{harness.Text("done")}, Stop: events.StopEnd}}, nil
		}
	}
	most, below, _ := strings.Cut(last.Text(), " ")
	n := 0
	if _, err := fmt.Sscan(most, &n); err != nil || n == 0 {
		return scripted.Answer{Response: llm.Response{Parts: []events.Part{harness.Text("done")}, Stop: events.StopEnd}}, nil
	}
	var calls []events.Part
	for i := range n {
		calls = append(calls, harness.Call(events.CallID(fmt.Sprint("k", i)), "spawn_agent", fmt.Sprintf(`{"capability":"peer","task":"%s ."}`, below)))
	}
	return scripted.Answer{Response: llm.Response{Parts: calls, Stop: events.StopToolUse}}, nil
}

// TestManyAgents runs trees of agents on a node with one place: wide ones, and one as deep as agents may be. Each call that waits for an
// agent is parked in the history.
func TestManyAgents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		task   string
		agents int
	}{"wide": {"6 6 8", 6 + 6*6 + 6*6*8}, "deep": {"1 1 1 1 1", 5}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := harness.StartIdle(t)
			n, err := agentNode(b.T, bustest.Open(t, b.Server), 1, delegating)
			runtest.WantError(t, "node", err, nil)
			b.Launch(n)
			root, neighbour := b.Open(api.CreateRequest{}), b.Open(api.CreateRequest{})
			b.StartTurn(root, "t1", harness.Text(c.task))
			runtest.Equal(t, "neighbour", b.RunTurn(neighbour, "t1", harness.Text("0")).Text, "done") // it waits for none of them
			runtest.Equal(t, "end", b.AwaitTurn(root, "t1").End, events.EndFinished)
			agents := 0
			var count func(id events.SessionID)
			count = func(id events.SessionID) {
				for _, task := range b.Subagents(id) {
					agents++
					runtest.Equal(t, "state of "+string(task.Child), task.State, events.TaskWaiting)
					count(task.Child)
				}
			}
			count(root)
			runtest.Equal(t, "agents", agents, c.agents)
			b.Verify(root)
		})
	}
}
