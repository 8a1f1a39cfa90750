package page

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
)

// another opens a second tab of the browser. The caller may close it.
func (b *tab) another() (other *tab, closeTab func()) {
	b.Helper()
	other = &tab{T: b.T, url: b.url}
	ctx, closeTab := chromedp.NewContext(b.ctx, chromedp.WithListener(other.hear))
	other.ctx = ctx
	b.Cleanup(func() {
		other.check()
		closeTab()
	})
	other.run(command(network.Enable, network.EnableParams{}), command(log.Enable, cdp.Empty{}))
	return other, closeTab
}

// TestTabsShareAConnection opens ten tabs of one server over HTTP/1.1, of which a browser opens six connections for all: eight sessions,
// two of them in two tabs. Each is live and shows what happens, also after the tabs that were first are closed.
func TestTabsShareAConnection(t *testing.T) {
	t.Parallel()
	b := harness.Start(t)
	d := serve(t, b, httpapi.Config{})
	first := browse(t, d.URL, desktop)
	var ids []events.SessionID
	var tabs []*tab
	var closers []func()
	for n := range 10 {
		if n < 8 {
			ids = append(ids, b.Open(api.CreateRequest{}))
		}
		p, closeTab := first.another()
		p.open("#/s/"+string(ids[n%8]), "writer")
		p.awaitText(".link", "live")
		tabs, closers = append(tabs, p), append(closers, closeTab)
	}
	say := func(word string, from int) {
		for n, id := range ids {
			_, err := b.AppendNodes(b.Ctx, id, api.AppendNodesRequest{IdempotencyKey: word, Nodes: []api.AppendNode{{
				Message: &events.Message{ID: events.MessageID(word), Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: fmt.Sprintf("%s of %d", word, n)}}},
			}}})
			runtest.WantError(t, word, err, nil)
		}
		for n, p := range tabs[from:] {
			p.awaitText(".message.user", fmt.Sprintf("%s of %d", word, (n+from)%8))
		}
	}
	say("morning", 0)
	closers[0]()
	closers[1]()
	say("evening", 2)
	for _, p := range tabs[2:] {
		p.awaitText(".link", "live")
		runtest.Equal(t, "messages", eval[int](p, "document.querySelectorAll('.message.user').length"), 2)
	}
}
