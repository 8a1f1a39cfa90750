package page

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
)

// compare folds a session in the browser, and compares what a prompt would have with the server's view, at each
// sequence. It returns the differences, and the number of comparisons.
const compare = `(async (id) => {
	const { History } = await import("/page/history.js"), { at, call, follow } = await import("/page/api.js");
	const state = await call("GET", at(id));
	const folded = new History(id), ended = new AbortController();
	if (state.forked_from) folded.seed(await call("GET", at(id, "/view"), { query: { at: 1 } }));
	const first = folded.seq || 1;
	await follow(id, { cursor: folded.seq, signal: ended.signal, onLink() {}, onBatch(list) {
		for (const m of list) if (m.name === "commit") folded.apply(m.data);
		if (folded.seq >= state.seq) ended.abort();
	} });
	const differences = [];
	for (let seq = first; seq <= state.seq; seq++) {
		const view = await call("GET", at(id, "/view"), { query: { at: seq } }), look = folded.at(seq);
		const texts = new Map(view.messages.map((m) => [m.id, m.role + " " + m.parts.map((p) => [p.type, p.text ?? "", p.tool ?? "", p.blob?.digest ?? ""].join("|")).join("+")]));
		const want = view.nodes.map((n) => n.id + " " + (texts.get(n.message) ?? n.type ?? ""));
		const got = look.visible().map((n) => n.id + " " + (n.kind === "message" ? n.role + " " + n.parts.map((p) => [p.kind, p.text ?? "", p.tool ?? "", p.blob?.digest ?? ""].join("|")).join("+") : n.type ?? ""));
		if (JSON.stringify(want) !== JSON.stringify(got)) differences.push({ seq, want, got });
	}
	return { differences: differences.slice(0, 3), compared: state.seq - first + 1 };
})`

// compared is the result of [compare].
type compared struct {
	Differences []struct {
		Seq       int
		Want, Got []string
	}
	Compared int
}

// TestFold compares the browser's fold with the server's, at every sequence of sessions with branches, frames, injected
// messages, appended nodes, failed calls, an approval, and of a copy.
func TestFold(t *testing.T) {
	t.Parallel()
	b, id := gallery(t)
	harness.WantError(t, "answer", b.Approve(b.Ctx, id, events.ToolApprovalGiven{Effect: "t4/0/0"}), nil)
	b.Model.Rescript(harness.Reply(harness.Text("Then not.")), harness.Reply(harness.Text("In a frame.")), harness.Reply(harness.Text("In a copy.")))
	b.AwaitTurn(id, "t4")
	nodes := b.AppendTexts(id, "one", "two", "three")
	_, err := b.OpenFrame(b.Ctx, id, api.FrameRequest{Frame: "f2", Reason: "compaction", Keep: nodes[1], Nodes: harness.UserMessages("a summary")})
	harness.WantError(t, "frame", err, nil)
	_, err = b.Inject(b.Ctx, id, api.InjectRequest{ID: "i1", Role: events.RoleUser, Parts: []events.Part{harness.Text("injected")}})
	harness.WantError(t, "inject", err, nil)
	b.RunTurn(id, "t5", harness.Text("Go on."))
	fork, err := b.Fork(b.Ctx, id, api.CreateRequest{ID: "copy"})
	harness.WantError(t, "fork", err, nil)
	b.RunTurn(fork, "t1", harness.Text("And here?"))
	_, err = b.OpenFrame(b.Ctx, id, api.FrameRequest{Frame: "f3", Reason: "continue_as"})
	harness.WantError(t, "frame", err, nil)
	harness.WantError(t, "branch", b.BranchTo(b.Ctx, id, nodes[0]), nil)
	b.AppendTexts(id, "after a branch")

	d := serve(t, b, httpapi.Config{})
	p := browse(t, d.URL, desktop)
	p.open("", "reader")
	sum := 0
	for _, session := range []events.SessionID{id, fork, "long-transcript", "old-experiment"} {
		got, err := chromedp.Run(p.ctx, chromedp.Evaluate[compared](fmt.Sprintf("%s(%s)", compare, quoted(string(session))), chromedp.EvalAwaitPromise))
		harness.WantError(t, "compare", err, nil)
		for _, d := range got.Differences {
			t.Errorf("%s at %d: got %q, want %q", session, d.Seq, d.Got, d.Want)
		}
		sum += got.Compared
	}
	if sum < 25 {
		t.Errorf("compared %d sequences, want all", sum)
	}
}
