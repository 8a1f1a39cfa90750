package turn_test

import (
	"errors"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/turn"
)

// TestNothingStartsBeforeHooks: no call is recorded as started before the hooks decide which calls run. Otherwise the
// next claim would record a call that waits for an approval as lost.
func TestNothingStartsBeforeHooks(t *testing.T) {
	t.Parallel()
	s := projector.New("s1")
	fold := func(list ...events.Event) {
		t.Helper()
		runtest.NoError(t, s.Apply(events.Entry{Seq: s.Seq + 1, Commit: &events.Commit{Session: "s1", At: 1, Events: list}}))
	}
	step := func(in turn.Input) {
		t.Helper()
		out, err := turn.Step(s, in)
		runtest.NoError(t, err)
		fold(out.Events...)
	}
	fold(events.Of("", &events.SessionOpened{}), events.Of("t1", &events.TurnRequested{Input: events.TurnInput{Parts: textParts("hi")}}))
	step(turn.Claim{Worker: "w1", Tools: []events.ToolEntry{{Name: "pay"}}, Points: []events.HookPoint{events.PointBeforeTool}})
	step(turn.Reply{ModelReplied: events.ModelReplied{
		Stop: events.StopToolUse, Parts: []events.Part{{Kind: events.PartToolCall, Call: "c", Tool: "pay", Args: []byte("{}")}},
	}})
	if needs := turn.Next(s); needs.Hooks != events.PointBeforeTool {
		t.Fatalf("needs: got %+v, want the hooks before the calls", needs)
	}
	if _, err := turn.Step(s, turn.StartCalls{}); !errors.Is(err, turn.ErrStale) || turn.NeedsStartCalls(s) {
		t.Errorf("begin before the hooks: got %v, want %v", err, turn.ErrStale)
	}
	step(turn.Hooks{Ran: events.HookRan{Point: events.PointBeforeTool}})
	if c := s.Turn().Calls[0]; !c.Called {
		t.Errorf("call after the hooks: got %+v, want it begun", c)
	}
}
