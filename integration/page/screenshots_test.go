package page

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm"
)

// TestScreenshots makes pictures of the page, at three sizes and in both themes, in the folder that LASH_SCREENSHOTS names,
// for people to look at. Without that variable it does nothing.
func TestScreenshots(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("LASH_SCREENSHOTS")
	if dir == "" {
		t.Skip("LASH_SCREENSHOTS names no folder")
	}
	b, id := gallery(t)
	d := serve(t, b, httpapi.Config{})
	p := browse(t, d.URL, desktop)
	p.run(chromedp.Navigate(d.URL + "/"))
	p.expect("401 (Unauthorized)")
	for _, in := range []size{desktop, {"tablet", 900, 1100}, {"phone", 390, 844}} {
		p.run(command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: in.width, Height: in.height, DeviceScaleFactor: 1}))
		for _, theme := range []string{"light", "dark"} {
			p.run(command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}}))
			p.eachPart(id, func(part string) {
				data, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
				runtest.WantError(t, "picture", err, nil)
				runtest.WantError(t, "write", os.WriteFile(filepath.Join(dir, in.name+"-"+theme+"-"+part+".png"), data, 0o600), nil)
			})
		}
	}
}

// eachPart shows each part of the page, and checks that nothing is wider than the window.
func (b *tab) eachPart(id events.SessionID, show func(part string)) {
	b.Helper()
	see := func(part string) {
		b.Helper()
		if wide := eval[[2]int](b, "[document.documentElement.scrollWidth, innerWidth]"); wide[0] > wide[1] {
			b.Errorf("%s: got a width of %d, want %d", part, wide[0], wide[1])
		}
		show(part)
	}
	b.await("the page", "document.querySelector('#token, .side')")
	if eval[bool](b, "Boolean(document.querySelector('#token'))") {
		see("signin")
		b.write("#token", "admin"+harness.TokenSecret+"\r")
	}
	b.await("the list", "document.querySelector('.side')")
	b.run(navigate(b, "#/"))
	b.await("the sessions", "document.querySelectorAll('.session').length > 3")
	b.awaitText(".session", "provider")
	see("list")
	b.searchTexts("fix \"the parser\"", "in 1 session")
	b.await("a hit", "document.querySelector('.found mark')")
	see("texts")
	b.press("\u001b")
	b.await("no search", "!document.querySelector('.found')")
	b.click("[data-filter=fail]")
	b.await("failed ones", "document.querySelectorAll('.session').length === 1")
	see("failed")
	b.click("[data-filter=all]")
	b.await("all", "document.querySelectorAll('.session').length > 3")
	b.run(navigate(b, "#/s/"+string(id)))
	b.awaitText(".headline", "Waits for")
	b.await("the approval", "document.querySelector('.conversation .approval')")
	see("talk")
	eval[chromedp.Void](b, "document.querySelector('main').page.find()")
	b.write(".find input", "golden")
	b.awaitText(".find", "messages")
	see("find")
	b.press("\u001b")
	b.await("no search", "document.querySelector('.find').hidden")
	for _, tab := range []string{"time", "graph", "events"} {
		b.click("#tab-" + tab)
		b.await(tab, "document.querySelector('#tab-"+tab+"[aria-selected=true]')")
		b.await("rows", "document.querySelectorAll('#panel .row, #panel svg g').length > 3")
		see(tab)
		if tab == "time" {
			b.click(".time-head button")
			b.awaitText(".time-head", "as the longest turn")
			see("scale")
			b.click(".time-head button")
		}
	}
	b.click("#tab-compare")
	b.await("its fields", "document.querySelector('.sides input').value")
	b.click(".sides .primary")
	b.awaitText(".compared", "only in the second")
	see("compare")
	b.click("#tab-events")
	b.await("rows", "document.querySelectorAll('#panel .row').length > 6")
	b.click("#panel .row:nth-child(6)")
	b.await("the inspector", "!document.querySelector('.inspector').hidden")
	see("inspector")
	b.press("\u001b")
	b.run(navigate(b, "#/inbox"))
	b.await("the inbox", "document.querySelectorAll('.approval').length > 0")
	see("inbox")
}

// searched and commanded are the arguments of the gallery's tools.
type (
	searched  struct{ Pattern, Path string }
	commanded struct{ Command string }
)

// gallery is a system with sessions of many kinds. The one that it names waits for an approval.
func gallery(t *testing.T) (*harness.System, events.SessionID) {
	t.Helper()
	long := "The tests fail in two places:\n\n1. `TestParse` expects an **error** for an empty line.\n2. `TestFormat` has an old golden file.\n\n```go\nfunc Parse(line string) (Row, error) {\n\tif line == \"\" {\n\t\treturn Row{}, errEmpty\n\t}\n\treturn parse(line)\n}\n```\n\nI fix the first one now."
	search := harness.Call("c1", "search", `{"Pattern":"func Parse","Path":"internal/parser"}`)
	b := harness.StartIdle(t,
		harness.ReplyStopped(events.StopToolUse, events.Usage{Input: 1840, Output: 96, CacheRead: 1200, Reasoning: 40}, events.Part{Kind: events.PartReasoning, Text: "They want to know why the tests fail. I look for the parser first."}, search, harness.Call("c2", "search", `{"Pattern":"golden","Path":"testdata"}`)),
		harness.ReplyStopped(events.StopEnd, events.Usage{Input: 2400, Output: 310, CacheRead: 1800}, harness.Text(long)),
		harness.Reply(harness.Text("I would rather rename the package first.")),
		harness.Reply(harness.Text("The parser returns `errEmpty` now. Shall I run the tests?")),
		harness.Reply(harness.Text("I run them."), harness.Call("c3", "run_command", `{"Command":"go test ./internal/parser/... -run TestParse -count=1"}`)),
		harness.Reply(harness.Text("Sales rose by 4 % in the north.")),
		harness.Fail(llm.KindRequest, "context_length_exceeded"))
	b.StartNode(harness.PluginOf("desk", func(r *plugin.Registrar) {
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			if in.Tool != "run_command" {
				return nil, nil
			}
			return []plugin.Directive{plugin.Ask("Let run_command run? It may change files below internal/parser.")}, nil
		})
		plugin.AddTool(r, plugin.Tool{Name: "search", Effects: events.EffectsNone}, func(_ context.Context, _ plugin.Call, in searched) (string, error) {
			time.Sleep(40 * time.Millisecond) //nolint:forbidigo // the length of the tool's work in the timeline
			if in.Path == "testdata" {
				return "", errors.New("testdata: permission denied")
			}
			return "internal/parser/parse.go:14: func Parse(line string) (Row, error) {", nil
		})
		plugin.AddTool(r, plugin.Tool{Name: "run_command"}, func(context.Context, plugin.Call, commanded) (string, error) { return "ok", nil })
	}))
	id := b.Open(api.CreateRequest{ID: "review-parser", Labels: map[string]string{"team": "compiler"}})
	b.RunTurn(id, "t1", harness.Text("Why do the tests of the parser fail? Please fix what is wrong."))
	before := b.LastSeq(id)
	b.RunTurn(id, "t2", harness.Text("What would you do next?"))
	view, err := b.ViewAt(b.Ctx, id, before)
	runtest.WantError(t, "view", err, nil)
	runtest.WantError(t, "branch", b.BranchTo(b.Ctx, id, view.Nodes[len(view.Nodes)-1].ID), nil)
	b.RunTurn(id, "t3", harness.Text("Fix the first one."))
	b.StartTurn(id, "t4", harness.Text("Yes, run them."))
	b.AwaitState(id, "question", harness.HasAsk)
	report := b.Open(api.CreateRequest{ID: "nightly-report", Labels: map[string]string{"team": "sales"}})
	b.RunTurn(report, "t1", harness.Text("Summarise the sales of this week."))
	broken := b.Open(api.CreateRequest{ID: "long-transcript"})
	b.StartTurn(broken, "t1", harness.Text("Read all of the transcript."))
	b.AwaitTurn(broken, "t1")
	b.Open(api.CreateRequest{ID: "draft-for-tomorrow"})
	closed := b.Open(api.CreateRequest{ID: "old-experiment"})
	runtest.WantError(t, "close", b.CloseSession(b.Ctx, closed, "done"), nil)
	return b, id
}
