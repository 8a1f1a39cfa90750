package page

import (
	"flag"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session/httpapi"
)

var follows = flag.Int("follow", 60, "how many turns of a busy session the page follows while its memory is compared")

// grownTo is the memory of the page's objects after a collection of garbage, in bytes.
func grownTo(p *tab) float64 {
	p.Helper()
	p.run(chromedp.Evaluate[chromedp.Void]("gc()"))
	return eval[float64](p, "performance.memory.usedJSHeapSize")
}

// TestFollowsABusySession follows a session with one turn after the other beside others that move, as the list shows. Once the page has as many events as
// it keeps, neither its memory nor its document grows.
func TestFollowsABusySession(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	var list []*writer
	for _, id := range []events.SessionID{"busy", "other-1", "other-2"} {
		b.ByHand(id)
		w := &writer{b: b, id: id}
		w.commit(events.Of("", &events.SessionOpened{}))
		list = append(list, w)
	}
	d := serve(t, b, httpapi.Config{})
	p := browseIn(b.Ctx, t, d.URL, desktop, chromedp.Flag("js-flags", "--expose-gc"), chromedp.Flag("enable-precise-memory-info", true))
	p.open("#/s/busy", "reader")
	p.awaitText(".link", "live")
	eval[chromedp.Void](p, "document.querySelector('main').page.kept = document.querySelector('main').page.messages = 300")
	n := 0
	move := func(turns int) {
		for ; n < turns; n++ {
			list[n%len(list)].turn(n)
			list[0].turn(1_000_000 + n)
		}
		p.awaitText(".message.assistant", "Answer ")
	}
	move(100) // twice what the page keeps
	began, before, nodes := time.Now(), grownTo(p), eval[int](p, "document.querySelectorAll('*').length")
	move(100 + *follows)
	after, later := grownTo(p), eval[int](p, "document.querySelectorAll('*').length")
	t.Logf("%d turns, %v: memory %.1f MB, then %.1f MB; %d elements, then %d", n, time.Since(began), before/1e6, after/1e6, nodes, later)
	p.await("the row of what is left out", "document.querySelector('main').page.history.left > 0")
	if after > before*1.2+2e6 || later > nodes*2+200 {
		t.Errorf("the page grows: memory %.1f MB, then %.1f MB; %d elements, then %d", before/1e6, after/1e6, nodes, later)
	}
}
