package page

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp/kb"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/httpapi"
)

// searchTexts types into the search of the list, and searches again, as Enter does, until the page says what was found: the index is
// some seconds behind.
func (b *tab) searchTexts(typed, said string) {
	b.Helper()
	b.run(focusOn("#search"))
	eval[string](b, "(document.querySelector('#search').select(), '')")
	b.write("#search", typed)
	bustest.Eventually(b, "the search says "+said, func() bool {
		b.await("an answer", "document.querySelector('.texts-head')?.innerText.includes('Searching') === false")
		if eval[bool](b, "document.querySelector('.texts-head').innerText.includes("+quoted(said)+")") {
			return true
		}
		b.press(kb.Enter)
		return false
	})
}

// hits are the texts of the found turns, in order.
func (b *tab) hits() []string {
	b.Helper()
	return eval[[]string](b, "[...document.querySelectorAll('.row:has(> .found)')].sort((x, y) => x.ariaPosInSet - y.ariaPosInSet).map((r) => r.querySelector('.name').textContent + ': ' + r.querySelector('.snippet').textContent)")
}

// goes clicks the first hit, and waits until the conversation shows a text, which is marked.
func (b *tab) goes(to, marked string) {
	b.Helper()
	b.click("[aria-posinset='2'] > .found") // after the heading
	b.await("the mark in "+to, fmt.Sprintf(`(() => {
		const box = document.querySelector(".conversation")?.getBoundingClientRect(), found = [...(CSS.highlights.get("found-now") ?? [])];
		return found.some((r) => { const at = r.getBoundingClientRect(); return r.toString() === %s && r.startContainer.data.includes(%s) && at.top >= box.top && at.bottom <= box.bottom; });
	})()`, quoted(marked), quoted(to)))
}

// TestSearchOfTexts finds texts of all sessions in the list: of messages, of results of calls that are not opened, and of a branch
// that the conversation left. A hit shows its place. The keys do all of it, and the number of hits is read out.
func TestSearchOfTexts(t *testing.T) {
	t.Parallel()
	b, id := gallery(t)
	b.ByHand("long")
	w := &writer{b: b, id: "long"}
	w.commit(events.Of("", &events.SessionOpened{}))
	for n := range 120 {
		w.turn(n)
	}
	runtest.WantError(t, "mark", b.Bus.MarkDirty("long"), nil)
	p := browse(t, serve(t, b, httpapi.Config{}).URL, desktop)
	p.open("", "reader")
	p.await("the sessions", "document.querySelectorAll('.session').length > 3")

	p.press("/")
	p.await("the search", "document.activeElement.id === 'search'")
	p.searchTexts(`"QUESTION 17?"`, "1 turn in 1 session")
	runtest.Equal(t, "read out", eval[string](p, "document.querySelector('#said').textContent"), "1 turn in 1 session")
	runtest.Equal(t, "hits", strings.Join(p.hits(), "\n"), "long: Question 17?")
	runtest.Equal(t, "marks", eval[string](p, "[...document.querySelectorAll('.found mark')].map((m) => m.textContent).join()"), "Question 17?")
	p.press(kb.ArrowDown)
	p.await("the list", "document.activeElement.classList.contains('sessions')")
	p.press("jj") // over the heading
	p.awaitText(".session-page h1", "long")
	p.awaitText(".find", "1 of 1 message")
	p.shows("Question 17?")

	p.searchTexts(`"parse.go:14: func"`, "1 turn in 1 session")
	p.goes("internal/parser/parse.go:14", "parse.go:14: func")
	runtest.Equal(t, "the session", eval[string](p, "document.querySelector('main').page.id"), string(id))
	p.await("the call is open", "document.querySelector('.call-body')")

	p.searchTexts(`"rename the package"`, "1 turn in 1 session")
	p.goes("I would rather rename the package first.", "rename the package")
	p.await("the session as it was", "document.querySelector('.session-page.past')")

	p.searchTexts("nobody-said-this", "No turn says it")
	runtest.Equal(t, "hits", len(p.hits()), 0)
	p.press("\u001b")
	p.await("all sessions", "!document.querySelector('.texts-head') && document.querySelectorAll('.session').length > 3")

	p.run(command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 390, Height: 844, DeviceScaleFactor: 1}), navigate(p, "#/"))
	p.searchTexts(`"sales rose"`, "1 turn in 1 session")
	p.goes("Sales rose by 4", "Sales rose")
	p.await("the session alone", "document.querySelector('.side').offsetParent === null")
}

// TestSearchMore reads further pages of many sessions.
func TestSearchMore(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	var ids []events.SessionID
	for n := range 45 {
		id := events.SessionID(fmt.Sprintf("s%02d", n))
		b.ByHand(id)
		w := &writer{b: b, id: id}
		w.commit(events.Of("", &events.SessionOpened{}))
		w.turn(n)
		runtest.WantError(t, "mark", b.Bus.MarkDirty(id), nil)
		ids = append(ids, id)
	}
	b.StartNode()
	p := browse(t, serve(t, b, httpapi.Config{}).URL, desktop)
	p.open("", "reader")
	p.await("the sessions", fmt.Sprintf("document.querySelector('.chip .n')?.textContent === '%d'", len(ids)))
	p.searchTexts("Question", "20 turns in 20 sessions, and more")
	for _, said := range []string{"40 turns in 40 sessions, and more", "45 turns in 45 sessions"} {
		eval[string](p, "(document.querySelector('.side .scroller').scrollTop = 1e6, '')")
		p.click(".more-texts")
		p.awaitText("#said", said)
	}
	eval[string](p, "(document.querySelector('.side .scroller').scrollTop = 1e6, '')")
	p.await("the last one", "[...document.querySelectorAll('.found .name')].some((e) => e.textContent === 's00') && !document.querySelector('.more-texts')")
}

// TestSearchOfCallers: the page shows each caller the texts of the sessions that it may read, for all grants.
func TestSearchOfCallers(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	d := serve(t, b, httpapi.Config{})
	reads := map[string][]string{"reader": nil, "admin": nil, "alice": nil, "bob": nil}
	for _, owner := range []string{"alice", "bob"} {
		for _, rights := range []string{"", `"read"`, `"write"`, `"read","approve"`} {
			id, other := fmt.Sprintf("%s-%d", owner, len(reads["reader"])), map[string]string{"alice": "bob", "bob": "alice"}[owner]
			runtest.Equal(t, "create", d.Send(owner, "POST", "/v1/sessions", fmt.Sprintf(`{"id":%q,"nodes":[{"message":{"role":"user","parts":[{"type":"text","text":"a needle"}]}}]}`, id)).Status, 201)
			for _, all := range []string{"reader", "admin", owner} {
				reads[all] = append(reads[all], id+": a needle")
			}
			if rights == "" {
				continue
			}
			runtest.Equal(t, "grant", d.Send(owner, "PUT", "/v1/sessions/"+id+"/grants/"+other, `{"rights":[`+rights+`]}`).Status, 204)
			if strings.Contains(rights, "read") {
				reads[other] = append(reads[other], id+": a needle")
			}
		}
	}
	b.StartNode() // its projectors write the rows
	for who, want := range reads {
		p := browse(t, d.URL, desktop)
		p.open("", who)
		p.searchTexts("needle", fmt.Sprintf("in %d sessions", len(want)))
		got := p.hits()
		slices.Sort(got)
		slices.Sort(want)
		runtest.Equal(t, "what "+who+" finds", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestHostileSearch finds hostile texts by hostile words. Nothing runs, nothing is requested elsewhere, and what hides a text is
// visible.
func TestHostileSearch(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	b.ByHand("hostile")
	w := &writer{b: b, id: "hostile"}
	w.commit(events.Of("", &events.SessionOpened{Labels: map[string]string{attack: bidi}}))
	for i, text := range []string{attack, bidi, "zalgo " + strings.Repeat("\u0301", 400), strings.Repeat("long", 2000), "\u0130\u0130 needle"} {
		turn := events.TurnID(fmt.Sprint("t", i))
		w.commit(events.Of(turn, &events.TurnRequested{Input: events.TurnInput{Parts: []events.Part{harness.Text(text)}}}))
		w.commit(events.Of(turn, &events.TurnStarted{Attempt: 1, Worker: "w"}), events.Of(turn, &events.TurnCompleted{End: events.EndFinished}))
	}
	runtest.WantError(t, "mark", b.Bus.MarkDirty("hostile"), nil)
	b.StartNode()
	p := browse(t, serve(t, b, httpapi.Config{}).URL, desktop)
	p.open("", "reader")
	p.await("the sessions", "document.querySelector('.session')")
	for typed, found := range map[string]string{
		"<script>window.hacked=1</script>": "1 turn", `"onerror=`: "1 turn", "txt.slaitnederc": "1 turn", "zalgo": "1 turn", "needle": "1 turn",
		strings.Repeat("long", 100): "1 turn", `.*+?[](){}|\^$`: "No turn", "%00 %ff &limit=0&text=": "No turn", strings.Repeat("a b ", 90): "No turn", `""""`: "", `"`: "",
		"\U0001f600\U0001f600": "No turn",
	} {
		if found == "" {
			p.write("#search", "\u001b"+typed)
			p.await("no search", "!document.querySelector('.texts-head')")
			continue
		}
		p.searchTexts(typed, found)
		if wide := eval[[2]int](p, "[document.querySelector('.side .scroller').scrollWidth, document.querySelector('.side').clientWidth]"); wide[0] > wide[1] {
			t.Errorf("%.40s: got a list of width %d, want %d", typed, wide[0], wide[1])
		}
		if high := eval[float64](p, "Math.max(0, ...[...document.querySelectorAll('.found')].map((e) => e.getBoundingClientRect().height))"); high > 120 {
			t.Errorf("%.40s: got a hit of %f pixels", typed, high)
		}
	}
	p.searchTexts("slaitnederc", "1 turn")
	runtest.Equal(t, "the hit", strings.Join(p.hits(), "\n"), "hostile: rm ⟨U+202E⟩txt.slaitnederc⟨U+202C⟩ ⟨U+2066⟩x⟨U+2069⟩")
	runtest.Equal(t, "scripts that ran", eval[string](p, "String(window.hacked)"), "undefined")
	runtest.Equal(t, "elements of hostile texts", eval[int](p, "document.querySelectorAll('body script, body img:not([src=\"/page/icon.svg\"]), body a[href^=\"javascript\"], body iframe').length"), 0)
}

// TestFailedFilter shows the sessions whose last turn failed, also those whose rows no window shows.
func TestFailedFilter(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	for n := range 60 {
		id := events.SessionID(fmt.Sprintf("s%02d", n))
		b.ByHand(id)
		w := &writer{b: b, id: id}
		w.commit(events.Of("", &events.SessionOpened{}))
		end := func(turn events.TurnID, end events.TurnEnd) {
			w.commit(events.Of(turn, &events.TurnRequested{Input: events.TurnInput{Parts: []events.Part{harness.Text("go")}}}))
			w.commit(events.Of(turn, &events.TurnStarted{Attempt: 1, Worker: "w"}), events.Of(turn, &events.TurnCompleted{End: end}))
		}
		switch n % 20 {
		case 0:
			end("t1", events.EndFinished)
			end("t2", events.EndFailed)
		case 1:
			end("t1", events.EndFailed)
			end("t2", events.EndFinished)
		case 2:
			end("t1", events.EndCancelled)
		default:
		}
		runtest.WantError(t, "mark", b.Bus.MarkDirty(id), nil)
	}
	b.StartNode()
	p := browse(t, serve(t, b, httpapi.Config{}).URL, size{"small", 1100, 400})
	p.open("", "reader")
	p.await("the sessions", "document.querySelector('.chip .n')?.textContent === '60'")
	p.click("[data-filter=fail]")
	p.await("the failed ones", "document.querySelector('[data-filter=fail] .n').textContent === '3' && document.querySelector('.side > .empty').hidden")
	runtest.Equal(t, "failed", eval[string](p, "[...document.querySelectorAll('.session .name')].map((e) => e.textContent).sort().join()"), "s00,s20,s40")
	runtest.Equal(t, "title", eval[string](p, "document.querySelector('[data-filter=fail]').title"), "Sessions whose last turn failed")
}
