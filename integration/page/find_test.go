package page

import (
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp/kb"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/httpapi"
)

// TestFind finds texts of a long conversation, most of which is not in the document: in messages, and in results of calls that are
// not opened. It goes to the next and to the one before, and marks the place.
func TestFind(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	b.ByHand("long")
	w := &writer{b: b, id: "long"}
	w.commit(events.Of("", &events.SessionOpened{}))
	for n := range 120 {
		w.turn(n)
	}
	p := browse(t, serve(t, b, httpapi.Config{}).URL, desktop)
	p.open("#/s/long", "reader")
	p.awaitText(".message.assistant", "Answer 119.")
	p.run(command(input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: "rawKeyDown", Key: "f", Code: "KeyF", WindowsVirtualKeyCode: 70}))
	p.await("the field", "document.activeElement.matches('.find input')")
	p.write(".find input", "QUESTION 11") // 11 and 110 to 119
	runtest.Equal(t, "the field", eval[string](p, "document.querySelector('.find input').value"), "QUESTION 11")
	p.awaitText(".find", "11 of 11 messages")
	p.shows("Question 119?")
	p.press(kb.Enter)
	p.awaitText(".find", "1 of 11 messages")
	p.shows("Question 11?")
	p.press(kb.Enter)
	p.awaitText(".find", "2 of 11 messages")
	p.shows("Question 110?")
	shift := func(kind input.DispatchKeyEventType) {
		p.run(command(input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: kind, Key: "Enter", Code: "Enter", WindowsVirtualKeyCode: 13, Modifiers: 8, Text: "\r"}))
	}
	shift("keyDown")
	shift("keyUp")
	p.awaitText(".find", "1 of 11 messages")
	p.shows("Question 11?")
	runtest.Equal(t, "the marked text", eval[string](p, "[...CSS.highlights.get('found-now')].map((r) => r.toString()).join()"), "Question 11")

	p.run(focusOn(".find input"))
	eval[string](p, "(document.querySelector('.find input').select(), '')")
	p.write(".find input", "found found found")
	p.awaitText(".find", "120 of 120 messages")
	p.awaitText(".call-body", "found found found")

	eval[string](p, "(document.querySelector('.find input').select(), '')")
	p.write(".find input", "nothing of this")
	p.awaitText(".find", "Not found")
	p.press("\u001b")
	p.await("no search", "document.querySelector('.find').hidden && !CSS.highlights.has('found')")
	p.run(command(input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: "keyDown", Key: "f", Code: "KeyF", WindowsVirtualKeyCode: 70, Modifiers: 2}))
	p.await("the field instead of the browser's own search", "document.activeElement.matches('.find input')")
}

// shows waits until a message with a text is in the part of the conversation that the window shows.
func (b *tab) shows(text string) {
	b.Helper()
	b.await(text, `(() => {
		const box = document.querySelector(".conversation").getBoundingClientRect();
		return [...document.querySelectorAll(".message .text")].some((e) => { const r = e.getBoundingClientRect(); return e.innerText === `+quoted(text)+` && r.top >= box.top && r.bottom <= box.bottom; });
	})()`)
}
