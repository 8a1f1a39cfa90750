package page

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/keyring"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
)

// checkHeads checks a session's heads with the page's own code, after a change of them, and returns what it found, by the
// sequence of the head.
const checkHeads = `(async (session, change) => {
	const { Proofs } = await import("/page/proof.js"), heads = structuredClone(document.querySelector("main").page.history.heads);
	const flip = (v, i) => { const b = [...atob(v.base64)]; b[i] = String.fromCharCode(b[i].charCodeAt(0) ^ 1); return { base64: btoa(b.join("")) }; };
	change(heads, flip);
	const proofs = new Proofs(session, () => {});
	await proofs.update(heads);
	return heads.map((head) => { const r = proofs.results.get(head.seq); return !r ? "none" : r.right ? "right" : r.wrong ?? r.why; }).join(", ");
})`

// TestHeadsAreChecked: the page checks the signatures of heads once their commits' hashes are known, and a certificate with the
// public key that the reader gives. It says what it does not check.
func TestHeadsAreChecked(t *testing.T) {
	t.Parallel()
	dir := keyring.Dir(t.TempDir())
	keys, err := keyring.Open(dir, time.Now())
	runtest.WantError(t, "keys", err, nil)
	public, err := os.ReadFile(filepath.Join(dir, "tenant.pub"))
	runtest.WantError(t, "public key", err, nil)
	other, err := keyring.MakeTenant(filepath.Join(t.TempDir(), "other"), strings.SplitN(string(public), "+", 2)[0])
	runtest.WantError(t, "other tenant", err, nil)
	b := harness.StartIdle(t, harness.Reply(harness.Text("One.")), harness.Reply(harness.Text("Two.")), harness.Reply(harness.Text("Three.")))
	b.Host = b.StartNodeWith(workers.Config{Signer: keys.Signer}, plugin.BuilderConfig{Builtins: []plugin.Factory{standard.Factory()}}).Host()
	id := b.Open(api.CreateRequest{})
	var ends []events.Seq
	for n := range 3 {
		b.RunTurn(id, events.TurnID(fmt.Sprintf("t%d", n)), harness.Text("a number"))
	}
	for e, err := range b.Bus.Log().Read(b.Ctx, id, 1) {
		runtest.WantError(t, "read", err, nil)
		if list := e.Commit.Events; list[len(list)-1].Kind == events.KindAuditHeadSigned {
			ends = append(ends, e.Seq)
		}
	}
	runtest.Equal(t, "heads", len(ends), 3)
	p := browse(t, serve(t, b, httpapi.Config{}).URL, desktop)
	p.open("#/s/"+string(id), "reader")
	p.awaitText(".facts", "Signed")
	p.click(".facts div:last-child button")
	p.awaitText(".inspected.proof", "Not checked yet")
	p.awaitText(".inspected.proof", "Not checked here: that the events on this page are the signed commits.")
	eval[chromedp.Void](p, fmt.Sprintf("document.querySelector('main').page.inspect({ seq: %d })", ends[1]))
	p.awaitText(".inspected.proof", "Signature checked in this browser")
	p.awaitText(".inspected.proof", fmt.Sprintf("signed the hashes of the commits 1 to %d", ends[1]))
	p.write(".tenant input", other+"\r")
	p.awaitText(".tenant", "Another key certified the node's key")
	eval[string](p, "(document.querySelector('.tenant input').value = '')")
	p.write(".tenant input", "x\r")
	p.awaitText(".tenant", "This is no public key")
	eval[string](p, "(document.querySelector('.tenant input').value = '')")
	p.write(".tenant input", strings.TrimSpace(string(public))+"\r")
	p.awaitText(".tenant", "This key certified the node's key")

	const signature, tree, next, expired = "Its signature is not one of this tree and this key.", "It does not cover the commits up to its own.", "The next head does not continue this tree.", "Its certificate was not valid at the time of the commit."
	for name, c := range map[string]struct{ session, change, want string }{
		"unchanged":          {string(id), "() => {}", "right, right, none"},
		"signature":          {string(id), "(h, flip) => { h[1].payload.signature = flip(h[1].payload.signature, 5); }", "right, " + signature + ", none"},
		"hash of a commit":   {string(id), "(h, flip) => { h[1].payload.leaves = flip(h[1].payload.leaves, 40); }", "right, " + signature + ", none"},
		"hash of a head":     {string(id), "(h, flip) => { h[1].payload.leaves = flip(h[1].payload.leaves, 0); }", signature + ", " + signature + ", none"},
		"edge":               {string(id), "(h, flip) => { h[2].payload.edge = flip(h[2].payload.edge, 3); }", "right, " + next + ", none"},
		"sequence":           {string(id), "(h) => { h[0].seq++; }", tree + ", right, none"},
		"another session":    {"other", "() => {}", signature + ", " + signature + ", none"},
		"before its time":    {string(id), "(h) => { h[1].at = 0; }", "right, " + expired + ", none"},
		"another text":       {string(id), "(h) => { h[0].payload.certificate = h[0].payload.certificate.replace('lash node', 'lash  node'); }", "It names another certificate than it has., right, none"},
		"without a text":     {string(id), "(h) => { delete h[0].payload.certificate; }", "Its certificate is in no head before it on this page., right, none"},
		"one that was cut":   {string(id), "(h) => { h.pop(); }", "right, none"},
		"one that is missed": {string(id), "(h) => { h.splice(1, 1); }", "The next head on this page does not name the hash of its commit., none"},
	} {
		got, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](fmt.Sprintf("%s(%s, %s)", checkHeads, quoted(c.session), c.change), chromedp.EvalAwaitPromise))
		runtest.WantError(t, name, err, nil)
		runtest.Equal(t, name, got, c.want)
	}
}
