package page

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/httpapi"
)

// TestAnswersOfAnAudit reads from the page what an auditor asks of a session: which calls failed, who asked and allowed,
// how a turn went on after an answer, and what another branch said.
func TestAnswersOfAnAudit(t *testing.T) {
	t.Parallel()
	b, id := gallery(t)
	b.Model.Rescript(harness.Reply(harness.Text("They pass.")))
	runtest.WantError(t, "answer", b.Approve(b.Ctx, id, events.ToolApprovalGiven{Effect: "t4/0/0", Granted: true, Reason: "it only tests"}), nil)
	b.AwaitTurn(id, "t4")
	p := browse(t, serve(t, b, httpapi.Config{}).URL, desktop)
	p.open("#/s/"+string(id), "admin")
	p.awaitText(".facts", "3, 1 failed")
	p.awaitText(".facts", "for answers")

	p.awaitText(".forks", "Another branch begins here: user, “What would you do next?”")
	runtest.Equal(t, "items of the numbered list", eval[string](p, "[...document.querySelectorAll('.prose ol li')].map((li) => li.value).join()"), "1,2")
	p.click(".forks button")
	p.awaitText(".message.assistant", "I would rather rename the package first.")
	p.await("the other branch alone", "!document.body.innerText.includes('Fix the first one.')")
	p.press("l")
	p.awaitText(".message.user", "Fix the first one.")

	p.press("e")
	p.await("the timeline", "document.querySelector('#tab-time[aria-selected=true]')")
	p.awaitText(".row.selected .bar-row", "failed")
	p.awaitText(".inspector", "testdata: permission denied")
	p.awaitText(".bar-row", "it only tests")
	p.awaitText(".bar-row", "continues")
	runtest.Equal(t, "takeovers", eval[int](p, "[...document.querySelectorAll('.bar-row .name')].filter((e) => e.innerText === 'takeover').length"), 0)
}

// TestCostOutsideOfTurns shows what a session paid for outside of its turns, so that the parts of its cost add up.
func TestCostOutsideOfTurns(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	b.ByHand("paid")
	w := &writer{b: b, id: "paid"}
	w.commit(events.Of("", &events.SessionOpened{}))
	w.turn(1)
	w.commit(events.Of("", &events.ModelCompleted{Key: "k", Request: "r", Source: "compaction", Stop: events.StopEnd, Usage: events.Usage{Input: 5000, Output: 100}, Millis: 700}))
	w.turn(2)
	p := browse(t, serve(t, b, httpapi.Config{}).URL, desktop)
	p.open("#/s/paid/time", "reader")
	p.awaitText(".turn-row", "outside of turns compaction")
	runtest.Equal(t, "order of the rows", eval[string](p, "[...document.querySelectorAll('.turn-row h2')].map((e) => e.innerText.trim()).join()"), "1 Question 1?,outside of turns compaction,2 Question 2?")
	runtest.Equal(t, "model calls", eval[string](p, "document.querySelector('.facts div:nth-child(2) dd').innerText"), "5")
	p.awaitText(".turn-row", "5.1k tokens")
}

// TestNarrow checks that at the widths of a tablet and a phone nothing is cut off, bars of a turn have one scale, the scrubber
// says where it is, and the inspector does not stay in front of another tab.
func TestNarrow(t *testing.T) {
	t.Parallel()
	b, id := gallery(t)
	p := browse(t, serve(t, b, httpapi.Config{}).URL, desktop)
	p.open("#/s/"+string(id), "admin")
	p.awaitText(".headline", "Waits for")
	for _, in := range []size{{"tablet", 820, 1180}, {"phone", 390, 844}} {
		p.run(command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: in.width, Height: in.height, DeviceScaleFactor: 1}))
		p.await(in.name, fmt.Sprintf("innerWidth === %d", in.width))
		if right := eval[float64](p, "document.querySelector('.scrubber .now').getBoundingClientRect().right"); right > float64(in.width) {
			t.Errorf("%s: got the button Live up to %v, want it in the window", in.name, right)
		}
		p.press("[")
		p.await("the place of the scrubber", "document.querySelector('.where').getBoundingClientRect().height > 0")
		p.press("l")
		p.press("2")
		p.await("bars", "document.querySelectorAll('#panel .lane').length > 3")
		runtest.Equal(t, in.name+": begins and ends of lanes", eval[int](p, "new Set([...document.querySelectorAll('#panel .lane')].map((e) => { const r = e.getBoundingClientRect(); return `${Math.round(r.left)} ${Math.round(r.right)}`; })).size"), 1)
		p.await("who asked", "[...document.querySelectorAll('#panel .bar-row .what')].every((e) => e.getBoundingClientRect().height > 0)")
		p.click("#panel .row:nth-child(2)")
		p.await("the inspector", "!document.querySelector('.inspector').hidden")
		p.press("4")
		p.await("no inspector in front", "document.querySelector('.inspector').hidden")
		p.press("1")
	}
}
