package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/plugin"
)

// attack is a text that runs a script wherever it becomes HTML, an attribute or a URL.
const attack = `<script>window.hacked=1</script><img src=x onerror="window.hacked=2"><svg onload=window.hacked=3></svg>` +
	`"><a href="javascript:window.hacked=4">x</a> ${window.hacked=5} [link](javascript:window.hacked=6) ![i](http://attacker.test/i.png)`

// bidi shows a text in another order than it has.
const bidi = "rm \u202etxt.slaitnederc\u202c \u2066x\u2069"

// TestHostileText puts hostile texts wherever models, tools and clients can, and opens all of the page. Nothing runs,
// nothing is requested elsewhere, and characters that hide what a text says are visible.
func TestHostileText(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("a long line \u05d0 ", 80_000)
	args, _ := json.Marshal(map[string]string{"Text": attack + bidi}) // of strings
	b := harness.StartIdle(t,
		harness.Reply(harness.Text("# "+attack+"\n- `"+attack+"`\n```\n"+attack+"\n```\n"+bidi), events.Part{Kind: events.PartReasoning, Text: attack}, harness.Call("k", "send", string(args))),
		harness.Reply(harness.Text(huge)))
	b.StartNode(harness.PluginOf("hostile", func(r *plugin.Registrar) {
		r.BeforeToolCall(func(context.Context, plugin.ToolContext) ([]plugin.Directive, error) {
			return []plugin.Directive{plugin.Ask(attack + bidi)}, nil
		})
		plugin.AddTool(r, plugin.Tool{Name: "send"}, func(context.Context, plugin.Call, struct{ Text string }) (string, error) {
			return "", errors.New(attack + bidi)
		})
	}))
	id := b.Open(api.CreateRequest{ID: "hostile", Labels: map[string]string{attack: bidi}})
	d := serve(t, b, httpapi.Config{})
	b.StartTurn(id, "t1", harness.Text(attack+bidi))
	p := browse(t, d.URL, desktop)
	p.open("#/s/hostile", "admin")
	p.awaitText(".approval", "⟨U+202E⟩txt.slaitnederc")
	p.click(".approval .primary:enabled")
	b.AwaitTurn(id, "t1")
	p.awaitText(".headline", "Last turn: finished")
	p.await("the huge reply", "[...document.querySelectorAll('.message button')].some((e) => e.textContent.startsWith('Read the body') || e.textContent.startsWith('Show more'))")
	p.click(".call .call-line")
	p.awaitText(".call-body", "<script>window.hacked=1</script>")
	for i, name := range []string{"talk", "time", "graph", "events", "compare"} {
		p.press(fmt.Sprint(i + 1))
		p.await(name, fmt.Sprintf("document.querySelector('#tab-%s[aria-selected=true]')", name))
	}
	p.await("the fields", "document.querySelector('.sides input').value")
	p.click(".sides .primary")
	p.awaitText(".compared", "<script>window.hacked=1</script>")
	p.click("#tab-events")
	p.await("events", "document.querySelectorAll('.event').length > 5")
	p.run(focusOn(".events"))
	for range 10 {
		p.press("k")
		p.await("the inspector", "!document.querySelector('.inspector').hidden")
	}
	p.run(navigate(p, "#/inbox"))
	p.awaitText(".inbox", "Nothing waits")
	runtest.Equal(t, "scripts that ran", eval[string](p, "String(window.hacked)"), "undefined")
	runtest.Equal(t, "elements of hostile texts", eval[int](p, "document.querySelectorAll('body script, body img:not([src=\"/page/icon.svg\"]), body a[href^=\"javascript\"], body iframe, body form[action]').length"), 0)
	if got := eval[bool](p, `/[\u202a-\u202e\u2066-\u2069]/.test(document.body.innerText)`); got {
		t.Error("characters that change directions: got some, want them by number")
	}

	p.run(navigate(p, "#/s/hostile"))
	p.await("the conversation", "document.querySelectorAll('.message').length > 2")
	runtest.Equal(t, "the text of the user", eval[string](p, "document.querySelector('.message.user .text').textContent"), attack+"rm ⟨U+202E⟩txt.slaitnederc⟨U+202C⟩ ⟨U+2066⟩x⟨U+2069⟩")
	size := eval[int](p, "document.querySelector('.conversation').textContent.length")
	if size > 60_000 {
		t.Errorf("text in the document: got %d characters, want a part of %d", size, len(huge))
	}
}
