package integration

import (
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// TestForkKeepsInstructions forks with a configuration of its own, which says nothing of instructions, and with one that does.
func TestForkKeepsInstructions(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	layers := []events.PromptLayer{{Slot: events.SlotGuidance, Op: events.LayerReplace, Title: "Who", Content: "Be kind."}}
	id := b.open(api.CreateRequest{Config: events.Config{Model: "m1", Instructions: "You are a clerk.", Layers: layers}})
	for _, tc := range []struct{ given, want string }{{"", "You are a clerk."}, {"You are a judge.", "You are a judge."}} {
		fork, err := b.Fork(b.ctx, id, api.CreateRequest{Config: events.Config{Model: "m2", Instructions: tc.given}})
		must(t, "fork", err, nil)
		c := b.state(fork).Config
		equal(t, "model", c.Model, "m2")
		equal(t, "instructions", c.Instructions, tc.want)
		equal(t, "layers", len(c.Layers) == 1, tc.given == "")
	}
}

// TestCancelOfAgentEndsScheduledTurns cancels the task of a session whose turn waits for its time.
func TestCancelOfAgentEndsScheduledTurns(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	b.node()
	parent := b.open(api.CreateRequest{})
	child := b.open(api.CreateRequest{Parent: parent})
	_, err := b.RegisterTask(b.ctx, parent, api.TaskRequest{ID: "k", Of: events.TaskSubagent, Child: child})
	must(t, "register", err, nil)
	_, err = b.SubmitAt(b.ctx, child, time.Now().Add(time.Hour), api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{text("later")}}})
	must(t, "submit at", err, nil)
	_, err = b.CancelTask(b.ctx, parent, "k")
	must(t, "cancel", err, nil)
	b.await(parent, "the cancel to be passed on", func(s *projector.State) bool { return !s.Tasks[0].Owing() })
	equal(t, "scheduled turns", len(b.state(child).Scheduled), 0)
}
