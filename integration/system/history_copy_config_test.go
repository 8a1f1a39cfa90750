package system

import (
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// TestSmokeForkKeepsInstructions forks with a new configuration, without instructions and with them.
func TestSmokeForkKeepsInstructions(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	layers := []events.PromptLayer{{Slot: events.SlotGuidance, Op: events.LayerReplace, Title: "Who", Content: "Be kind."}}
	id := b.Open(api.CreateRequest{Config: events.Config{Model: "m1", Instructions: "You are a clerk.", Layers: layers}})
	for _, tc := range []struct{ given, want string }{{"", "You are a clerk."}, {"You are a judge.", "You are a judge."}} {
		fork, err := b.Fork(b.Ctx, id, api.CreateRequest{Config: events.Config{Model: "m2", Instructions: tc.given}})
		runtest.WantError(t, "fork", err, nil)
		c := b.StateOf(fork).Config
		runtest.Equal(t, "model", c.Model, "m2")
		runtest.Equal(t, "instructions", c.Instructions, tc.want)
		runtest.Equal(t, "layers", len(c.Layers) == 1, tc.given == "")
	}
}

// TestCancelOfAgentEndsScheduledTurns cancels the task of a session with a scheduled turn.
func TestCancelOfAgentEndsScheduledTurns(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	b.StartNode()
	parent := b.Open(api.CreateRequest{})
	child := b.Open(api.CreateRequest{Parent: parent})
	_, err := b.RegisterTask(b.Ctx, parent, api.TaskRequest{ID: "k", Of: events.TaskSubagent, Child: child})
	runtest.WantError(t, "register", err, nil)
	_, err = b.SubmitAt(b.Ctx, child, time.Now().Add(time.Hour), api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{harness.Text("later")}}})
	runtest.WantError(t, "submit at", err, nil)
	_, err = b.CancelTask(b.Ctx, parent, "k")
	runtest.WantError(t, "cancel", err, nil)
	b.AwaitState(parent, "the cancel to be passed on", func(s *projector.State) bool { return !s.Tasks[0].Unfinished() })
	runtest.Equal(t, "scheduled turns", len(b.StateOf(child).Scheduled), 0)
}
