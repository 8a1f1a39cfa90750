package page

import (
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/httpapi"
)

// bars are the widths in the lanes of the timeline, in percent: of the turn, where it has an own width, and of the call.
const bars = `[...document.querySelectorAll(".timeline .row:has(.lane)")].sort((a, b) => a.ariaPosInSet - b.ariaPosInSet)
	.map((r) => [...r.querySelectorAll(".lane i")].map((i) => Math.round(parseFloat(i.style.width))).join("/")).join(" ")`

// TestScaleOfTurns has turns of 3 s and of 1 s, with calls of a second each. By itself each turn fills its lanes; on one scale the
// lengths of turns compare, also while a longer one comes.
func TestScaleOfTurns(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	b.ByHand("s")
	w := &writer{b: b, id: "s"} // a commit a second
	begin := func(turn events.TurnID) {
		w.commit(events.Of(turn, &events.TurnRequested{Input: events.TurnInput{Parts: []events.Part{harness.Text("go")}}}))
		w.commit(events.Of(turn, &events.TurnStarted{Attempt: 1, Worker: "w"}))
	}
	calls := func(turn events.TurnID, n int) {
		for i := range n {
			w.commit(events.Of(turn, &events.ModelReplied{Iteration: int64(i), Parts: []events.Part{harness.Call("c", "look", `{}`)}, Stop: events.StopToolUse, Millis: 1000}))
			w.commit(events.Of(turn, &events.ToolReturned{Iteration: int64(i), Results: []events.ToolResult{{Text: "seen", Millis: 1000}}}))
		}
		w.commit(events.Of(turn, &events.ModelReplied{Iteration: int64(n), Parts: []events.Part{harness.Text("done")}, Stop: events.StopEnd, Millis: 1000}), events.Of(turn, &events.TurnCompleted{End: events.EndFinished}))
	}
	w.commit(events.Of("", &events.SessionOpened{}))
	begin("t1")
	calls("t1", 1)
	begin("t2")
	calls("t2", 0)
	p := browse(t, serve(t, b, httpapi.Config{}).URL, desktop)
	p.open("#/s/s/time", "reader")
	widths := func(want string) {
		t.Helper()
		p.await("the widths "+want, bars+" === "+quoted(want))
	}
	widths("33 33 33 100")
	p.awaitText(".time-head", "Each lane is as long as its turn")
	p.click(".time-head button")
	widths("100/33 100/33 100/33 33/33")
	p.awaitText(".time-head", "Each lane is 3.0 s, as long as the longest turn")
	runtest.Equal(t, "pressed", eval[string](p, "document.querySelector('.time-head button').ariaPressed"), "true")
	begin("t3")
	calls("t3", 2)
	widths("60/20 60/20 60/20 20/20 100/20 100/20 100/20 100/20 100/20")
	p.awaitText(".time-head", "Each lane is 5.0 s, as long as the longest turn")
	p.click(".time-head button")
	widths("33 33 33 100 20 20 20 20 20")
}
