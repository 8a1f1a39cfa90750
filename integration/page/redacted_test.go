package page

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/archive"
	"github.com/lash-go/lash/session/httpapi"
)

// TestRedacted shows a session whose payloads of tools, and inputs, were redacted: the browser folds it as the server does,
// and says of each such event who redacted it and why, in the list of events, and in place of the message.
func TestRedacted(t *testing.T) {
	t.Parallel()
	b, id := gallery(t)
	b.ByHand(id) // decisions about payloads that are gone
	b.Model.Rescript(harness.Reply(harness.Text("Then not.")))
	runtest.WantError(t, "answer", b.Approve(b.Ctx, id, events.ToolApprovalGiven{Effect: "t4/0/0"}), nil)
	b.AwaitTurn(id, "t4")
	runtest.WantError(t, "close", b.CloseSession(b.Ctx, id, "done"), nil)
	_, err := archive.Redact(b.Ctx, b.Bus, id, events.RedactionRecord{At: 1700000000000, By: "ann", Reason: "asked to <b>twice</b>", What: []string{"tool.*", "turn.requested", "graph.branched"}}, nil)
	runtest.WantError(t, "redact", err, nil)

	p := browse(t, serve(t, b, httpapi.Config{Redactions: b.Bus.Redactions}).URL, desktop)
	p.open("#/s/"+string(id)+"/events", "reader")
	if sum := p.compareFolds(id); sum < 10 {
		t.Errorf("compared %d sequences, want all", sum)
	}
	p.awaitText(".events-view", "asked to <b>twice</b>; its digest is")
	p.awaitText(".events-view", "redacted by ann, ")
	for _, kind := range []string{"turn.requested", "tool.returned"} {
		eval[chromedp.Void](p, "document.querySelector('main').page.inspect({ seq: document.querySelector('main').page.history.redacted.find((e) => e.kind === "+quoted(kind)+").seq })")
		p.awaitText(".inspector h3", kind)
		p.awaitText(".inspector .inspected", "The payload was redacted by ann, 2023-11-14")
		p.awaitText(".inspector .inspected", "asked to <b>twice</b>. Its digest is ")
	}
	runtest.Equal(t, "elements of the reason", eval[int](p, "document.querySelectorAll('.inspector .inspected p b').length"), 0)
	if text := eval[string](p, "document.querySelector('.inspector').innerText"); strings.Contains(text, "parse.go:14") {
		t.Errorf("inspector: got %s, want nothing of the result", text)
	}
	p.click("#tab-talk")
	p.awaitText(".conversation", "turn.requested")
	p.awaitText(".conversation", "asked to <b>twice</b>")
}

// TestRemovedWhileOpen redacts and then erases a session that a page shows. The page drops what it has in memory, in each of its forms, and
// shows what is left.
func TestRemovedWhileOpen(t *testing.T) {
	t.Parallel()
	const text = "n33dle of the removed"
	b := harness.StartIdle(t, harness.Reply(harness.Text(text)))
	b.StartNode()
	id := b.Open(api.CreateRequest{})
	b.ByHand(id)
	b.RunTurn(id, "t1", harness.Text("say it"))
	runtest.WantError(t, "close", b.CloseSession(b.Ctx, id, "done"), nil)

	p := browse(t, serve(t, b, httpapi.Config{Redactions: b.Bus.Redactions}).URL, desktop)
	p.expect("404")
	p.open("#/s/"+string(id), "reader")
	p.awaitText(".message.assistant", text)
	p.click("#tab-events")
	eval[chromedp.Void](p, "document.querySelector('main').page.inspect({ event: document.querySelector('main').page.history.events.find((e) => e.kind === 'model.replied') })")
	p.awaitText(".inspector", text)

	_, err := archive.Redact(b.Ctx, b.Bus, id, events.RedactionRecord{At: 1700000000000, By: "ann", Reason: "asked to", What: []string{"model.replied"}}, nil)
	runtest.WantError(t, "redact", err, nil)
	p.awaitText(".events-view", "redacted by ann, ")
	runtest.Equal(t, "text on the page", eval[bool](p, "document.body.textContent.includes("+quoted(text)+")"), false)
	p.click("#tab-talk")
	p.awaitText(".conversation", "redacted by ann, ")
	p.awaitText(".conversation", "say it")
	runtest.Equal(t, "text in the conversation", eval[bool](p, "document.body.textContent.includes("+quoted(text)+")"), false)

	_, err = b.OtherHost().Erase(b.Ctx, id, "asked to")
	runtest.WantError(t, "erase", err, nil)
	p.awaitText(".notice", "There is no such session, or you may not read it.")
	runtest.Equal(t, "input on the page", eval[bool](p, "document.querySelector('main').textContent.includes('say it')"), false)
}

// TestUIOfRedacted shows a redacted archive with lash-replay ui: who redacted it, when and why, in the conversation, in the list of
// events and in the inspector. The search finds the texts that are left, and none of the redacted ones.
func TestUIOfRedacted(t *testing.T) {
	t.Parallel()
	runtest.Chromium(t)
	replay, file := harness.BuildCommand(t, "lash-replay"), filepath.Join(t.TempDir(), "redacted.lash")
	out, err := exec.CommandContext(harness.Context(t), replay, "export", "../../cmd/lash-replay/testdata/archives/answered.lash", "-o", file, "--redact", "model.replied", "--reason", "asked <i>to</i>", "--as", "ann").CombinedOutput()
	if err != nil {
		t.Fatalf("export: got %v, %s", err, out)
	}
	cmd := exec.CommandContext(harness.Context(t), replay, "ui", file, "--json")
	lines, err := cmd.StdoutPipe()
	runtest.WantError(t, "output", err, nil)
	runtest.WantError(t, "start", cmd.Start(), nil)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(lines).ReadBytes('\n')
	runtest.WantError(t, "line", err, nil)
	var served struct{ URL, Token string }
	runtest.WantError(t, "line", json.Unmarshal(line, &served), nil)

	p := browse(t, strings.TrimSuffix(served.URL, "/"), desktop)
	p.openAs("", served.Token)
	p.awaitText(".source", "redacted.lash")
	p.click(".session")
	p.awaitText(".conversation .redacted", "model.replied")
	p.awaitText(".conversation .redacted", "redacted by ann, 20")
	p.awaitText(".conversation .redacted", "asked <i>to</i>")
	p.click("#tab-events")
	p.awaitText(".events-view", "asked <i>to</i>; its digest is")
	eval[chromedp.Void](p, "document.querySelector('main').page.inspect({ seq: document.querySelector('main').page.history.redacted[0].seq })")
	p.awaitText(".inspector .inspected", "The payload was redacted by ann, 20")
	runtest.Equal(t, "elements of the reason", eval[int](p, "document.querySelectorAll('.redacted i, .inspected i').length"), 0)
	p.searchTexts("fast, PLEASE", "1 turn in 1 session")
	p.searchTexts(`"i add."`, "No turn says it")
}
