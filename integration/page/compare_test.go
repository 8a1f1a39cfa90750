package page

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/webpage"
)

// set writes a value into a field.
func set(selector, value string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.querySelector(%s).value = %s", quoted(selector), quoted(value)))
}

// TestCompare compares two points of a session with a branch between them, and two sessions.
func TestCompare(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Text("The common reply.")), harness.Reply(harness.Text("The first way.")), harness.Reply(harness.Text("The other way.")))
	b.StartNode()
	id := b.Open(api.CreateRequest{ID: "one"})
	b.RunTurn(id, "t1", harness.Text("common"))
	b.RunTurn(id, "t2", harness.Text("left"))
	before := b.LastSeq(id)
	runtest.WantError(t, "branch", b.BranchTo(b.Ctx, id, "a-t1-0"), nil)
	b.RunTurn(id, "t3", harness.Text("right"))
	runtest.WantError(t, "model", b.SetModel(id, "m2"), nil)
	b.Open(api.CreateRequest{ID: "two"})
	d := serve(t, b, httpapi.Config{})
	p := browse(t, d.URL, desktop)
	p.open("#/s/one/compare", "reader")
	p.await("the form", fmt.Sprintf("document.querySelector('.sides fieldset:nth-of-type(2) input[type=number]')?.value === %q", seqText(b, id)))
	p.run(set(".sides fieldset:nth-of-type(1) input[type=number]", fmt.Sprint(before)))
	p.click(".sides .primary")
	p.awaitText(".compared", "2 messages in both, 2 only in the first, 2 only in the second.")
	p.awaitText(".side-row.gone", "The first way.")
	p.awaitText(".side-row.new", "The other way.")
	p.awaitText(".change", "m2")
	p.run(set(".sides fieldset:nth-of-type(2) input[type=text]", "two"), set(".sides fieldset:nth-of-type(2) input[type=number]", ""))
	p.click(".sides .primary")
	p.awaitText(".compared", "0 messages in both, 4 only in the first, 0 only in the second.")
	p.expect("404 (Not Found)")
	p.run(set(".sides fieldset:nth-of-type(2) input[type=text]", "nowhere"))
	p.click(".sides .primary")
	p.awaitText(".compare .why", "There is no such session")
}

// TestReadOnly shows a session on a server that only shows: nothing on the page changes it, and the approval has no
// buttons.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.CallAdd())
	b.StartNode((&harness.Approver{}).Factory(events.EffectsNonIdempotent))
	id := b.Open(api.CreateRequest{})
	b.ParkTurn(id)
	runtest.Chromium(t)
	page, err := webpage.New(webpage.Settings{ReadOnly: true, Source: true})
	runtest.WantError(t, "page", err, nil)
	d := b.ServeHTTP(httpapi.Config{Page: page, Source: "the store <x>"})
	p := browse(t, d.URL, desktop)
	p.open("#/s/"+string(id), "reader")
	p.awaitText(".top", "the store <x>")
	p.awaitText(".approval", "really add?")
	p.await("the row of details", "document.querySelector('.actions button')")
	runtest.Equal(t, "what changes sessions", eval[int](p, "document.querySelectorAll('.talk, .side-head button, .approval button, .actions button:nth-child(2)').length"), 0)
}
