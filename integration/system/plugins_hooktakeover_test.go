package system

import (
	"maps"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// hookCounts are the hook calls of an undisturbed turn.
var hookCounts = map[string]int{
	"transform": 1, "before_turn": 1, "prompt": 1, "before_model 0": 1, "before_model 1": 1, "response": 2, "before_tool": 1, "tool": 1, "after_tool": 1, "projector": 1,
	"checkpoint after_work": 1, "checkpoint before_completion": 1, "after_turn": 1,
}

// TestTakeoverRepeatsNoHook kills a node while its turn is at one point, and counts the hook calls on it and on
// the node that takes over. A recorded decision is not requested again, at any point; the decision at the point of
// the kill is.
func TestTakeoverRepeatsNoHook(t *testing.T) {
	t.Parallel()
	calls, ends := harness.Reply(harness.Call("k", "look", `{"a":1}`)), harness.Reply(harness.Text("done"))
	for _, tt := range []struct {
		name     string
		at       string // the hook that hangs; empty: the model does
		script   func(chan<- struct{}) []harness.Step
		recorded int            // records of hooks before the kill
		again    map[string]int // the hook that is called twice: it was not recorded
	}{
		{"undisturbed", "nothing", nil, 0, nil},
		{"before_turn", "before_turn", nil, 0, map[string]int{"transform": 1, "before_turn": 1}},
		{"prompt", "prompt", nil, 0, map[string]int{"transform": 1, "before_turn": 1, "prompt": 1}}, // the session was created before
		{"before_model", "before_model 0", nil, 1, map[string]int{"before_model 0": 1}},
		{"first_model_call", "", func(c chan<- struct{}) []harness.Step { return []harness.Step{harness.Hang(c), calls, ends} }, 2, nil},
		{"before_tool", "before_tool", nil, 3, map[string]int{"before_tool": 1}},
		{"tool", "tool", nil, 4, map[string]int{"tool": 1}},
		{"after_tool", "after_tool", nil, 4, map[string]int{"tool": 1, "after_tool": 1}},
		{"checkpoint_after_work", "checkpoint after_work", nil, 5, map[string]int{"checkpoint after_work": 1}},
		{"before_second_model", "before_model 1", nil, 6, map[string]int{"before_model 1": 1}},
		{"second_model_call", "", func(c chan<- struct{}) []harness.Step { return []harness.Step{calls, harness.Hang(c), ends} }, 7, nil},
		{"checkpoint_before_completion", "checkpoint before_completion", nil, 8, map[string]int{"checkpoint before_completion": 1}},
		{"after_turn", "after_turn", nil, 9, map[string]int{"after_turn": 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := harness.NewHookCounter(tt.at)
			script := []harness.Step{calls, ends, ends, ends} // more than enough: unrecorded calls are repeated
			if tt.script != nil {
				script = tt.script(c.Hangs)
			}
			b := harness.StartIdle(t, script...)
			_, kill := b.StartNodeOn(bustest.Open(t, b.Server), c.Factory())
			id := b.Open(api.CreateRequest{})
			b.StartTurn(id, "t1", harness.Text("go"))
			if tt.at != "nothing" {
				harness.Receive(b, "hangs", c.Hangs)
				b.AwaitState(id, "what comes before it in the history", func(*projector.State) bool {
					return len(harness.Find[*events.HookRan](b, id)) >= tt.recorded
				})
				kill()
				b.StartNodeOn(bustest.Open(t, b.Server), c.Factory())
			}
			runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
			want := maps.Clone(hookCounts)
			for what, n := range tt.again {
				want[what] += n
			}
			for what, n := range want {
				runtest.Equal(t, "times "+what, c.Count[what], n)
			}
			points := make(map[events.HookPoint]int)
			for _, p := range harness.Find[*events.HookRan](b, id) {
				points[p.Point]++
			}
			for point, n := range map[events.HookPoint]int{
				events.PointBeforeTurn: 1, events.PointBeforeModel: 2, events.PointReply: 2, events.PointBeforeTool: 1, events.PointAfterTool: 1, events.PointCheckpoint: 2, events.PointAfterTurn: 1,
			} {
				runtest.Equal(t, "records of "+string(point), points[point], n)
			}
			runtest.EqualLists(t, "messages", b.Messages(id), []string{"user go", `assistant k:look{"a":1}`, "user k=<2>", "user queued", "assistant done", "system bye"})
			last := len(b.Model.Requests()) - 1
			runtest.EqualLists(t, "prompt", b.Model.Prompt(last), []string{"system be good\n\ncall 1 of 4 messages", "user go on", `assistant k:look{"a":1}`, "user k=<2>", "user queued"})
			runtest.Equal(t, "parent of what was created", b.StateOf("kid").Parent, id)
		})
	}
}
