package page

import (
	"context"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/plugin"
)

// TestSmokeTalk signs in, creates a session, talks to it, and sees the reply without a reload.
func TestSmokeTalk(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Text("**Four**, says `add`."), harness.Call("k", "add", `{"A":2,"B":2}`)), harness.Reply(harness.Text("It is 4.")))
	b.StartNode(adder())
	d := serve(t, b, httpapi.Config{})
	p := browse(t, d.URL, desktop)
	p.open("", "writer")
	p.click(".side-head button")
	p.await("a session", "location.hash.startsWith('#/s/')")
	p.write(".talk textarea", "What is 2 + 2?\r")
	p.awaitText(".message.user", "What is 2 + 2?")
	p.awaitText(".message.assistant", "It is 4.")
	p.awaitText(".call", "add")
	p.awaitText(".headline", "Last turn: finished")
	runtest.Equal(t, "strong text", eval[string](p, "document.querySelector('.prose strong').textContent"), "Four")
	p.awaitText(".side .session", "1 turn")
	if got := eval[string](p, "sessionStorage.getItem('lash.token') + location.href + document.cookie + Object.keys(localStorage)"); got != "writer"+harness.TokenSecret+d.URL+"/"+eval[string](p, "location.hash") {
		t.Errorf("token, address, cookies, storage: got %q, want the token in sessionStorage alone", got)
	}
}

// adder is a plugin with the tool add.
func adder() plugin.Factory {
	return harness.PluginOf("adder", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "add", Effects: events.EffectsNone}, func(_ context.Context, _ plugin.Call, in struct{ A, B int }) (int, error) {
			return in.A + in.B, nil
		})
	})
}

// TestSignIn refuses a wrong token with a text that says what to do next, and leaves nothing of it.
func TestSignIn(t *testing.T) {
	t.Parallel()
	d := serve(t, harness.StartIdle(t), httpapi.Config{})
	p := browse(t, d.URL, desktop)
	p.open("", "reader")
	p.click(".top button:last-child")
	p.await("the sign-in", "document.querySelector('#token')")
	p.write("#token", "guess\r")
	p.awaitText(".sign-in .why", "Paste the whole token again, or ask whoever runs this server")
	runtest.Equal(t, "token", eval[string](p, "String(sessionStorage.getItem('lash.token'))"), "null")
}
