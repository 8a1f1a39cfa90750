package page

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/httpapi"
)

// violations runs axe-core over the page, and describes what it finds.
const violations = `axe.run(document, { resultTypes: ["violations"] }).then((r) => r.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map((n) => n.target.join(" ") + " " + (n.any[0]?.message ?? n.failureSummary)).join("; ")))`

// TestAccessible runs the rules of axe-core over each part of the page, in both themes and at the width of a phone.
func TestAccessible(t *testing.T) {
	t.Parallel()
	axe, err := os.ReadFile(filepath.Join(runtest.NPM(t), "axe-core", "axe.min.js"))
	runtest.WantError(t, "axe-core", err, nil)
	b, id := gallery(t)
	d := serve(t, b, httpapi.Config{})
	p := browse(t, d.URL, desktop)
	p.run(chromedp.Navigate(d.URL + "/"))
	p.expect("401 (Unauthorized)")
	for _, in := range []size{desktop, {"phone", 390, 844}} {
		p.run(command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: in.width, Height: in.height, DeviceScaleFactor: 1}))
		for _, theme := range []string{"light", "dark"} {
			if theme == "dark" && in != desktop {
				continue // the colours are the same at each width
			}
			p.run(command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}}))
			p.eachPart(id, func(part string) {
				p.run(chromedp.Evaluate[chromedp.Void](string(axe) + ";null"))
				found, err := chromedp.Run(p.ctx, chromedp.Evaluate[[]string](violations, chromedp.EvalAwaitPromise))
				runtest.WantError(t, "axe", err, nil)
				if len(found) > 0 {
					t.Errorf("%s, %s, %s: got\n%s", part, in.name, theme, strings.Join(found, "\n"))
				}
			})
		}
	}
}

// bound is the last commit before seq with the end of a turn, or with the start of the turn that runs.
func bound(b *harness.System, id events.SessionID, seq events.Seq) (found events.Seq) {
	b.T.Helper()
	running := b.StateOf(id).Turn()
	for entry, err := range b.Bus.Log().Read(b.Ctx, id, 1) {
		runtest.WantError(b.T, "read", err, nil)
		for _, e := range entry.Commit.Events {
			start := e.Kind == events.KindTurnStarted && running != nil && e.Turn == running.ID
			if entry.Seq < seq && (start || e.Kind == events.KindTurnCompleted) {
				found = entry.Seq
			}
		}
	}
	return found
}

// TestKeys goes through the page with the keyboard alone.
func TestKeys(t *testing.T) {
	t.Parallel()
	b, id := gallery(t)
	d := serve(t, b, httpapi.Config{})
	p := browse(t, d.URL, desktop)
	p.open("", "admin")
	p.await("the sessions", "document.querySelectorAll('.session').length > 3")
	p.run(chromedp.Evaluate[chromedp.Void]("document.body.dispatchEvent(new KeyboardEvent('keydown', { key: '/', bubbles: true, cancelable: true }))"))
	p.await("the search", "document.activeElement.id === 'search'")
	p.write("#search", "compiler")
	p.await("one session", "document.querySelectorAll('.session').length === 1")
	p.press(kb.ArrowDown)
	p.await("the list", "document.activeElement.classList.contains('sessions')")
	p.press("j")
	p.awaitText(".session-page h1", string(id))
	p.run(chromedp.Evaluate[chromedp.Void]("document.activeElement.blur()"))
	for i, name := range []string{"talk", "time", "graph", "events", "compare"} {
		p.press(fmt.Sprint(i + 1))
		p.await(name, fmt.Sprintf("document.querySelector('#tab-%s[aria-selected=true]')", name))
	}
	last := b.LastSeq(id)
	p.awaitText(".where", fmt.Sprintf("%d of %d", last, last))
	p.await("no past before the state is there", `(() => {
		const { page } = document.querySelector('.session-page'), { state } = page
		page.state = null
		page.key({ key: '[' })
		page.state = state
		return page.cursor === null
	})()`)
	p.press("[")
	p.await("the past", "document.querySelector('.session-page.past') && document.querySelector('.scrubber .now[aria-pressed=false]')")
	p.press("{")
	p.awaitText(".where", fmt.Sprintf("%d of %d", bound(b, id, last-1), last))
	p.press("l")
	p.await("the present", "!document.querySelector('.session-page.past')")
	p.press("a")
	p.await("the approval", "document.activeElement.closest('.approval')")
	p.press("i")
	p.await("the inbox", "location.hash === '#/inbox'")
	p.press("?")
	p.await("the keys", "document.querySelector('dialog[open]')")
	p.press("\u001b")
	p.await("no dialog", "!document.querySelector('dialog')")
}
