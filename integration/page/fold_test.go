package page

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/archive"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/workers/playback"
	"github.com/lash-go/lash/workers/recording"
	"github.com/lash-go/lash/workers/recording/recordingtest"
)

// compare folds a session in the browser, and compares what a prompt would have with the server's view, at each
// sequence, or at about 40 of a long session. It returns the differences, and the number of comparisons.
const compare = `(async (id) => {
	const { History } = await import("/page/history.js"), { at, call, follow, viewAt } = await import("/page/api.js");
	const state = await call("GET", at(id));
	const folded = new History(id), ended = new AbortController();
	if (state.forked_from) folded.seed(await viewAt(id, 1));
	const first = folded.seq || 1;
	await follow(id, { cursor: folded.seq, signal: ended.signal, onLink() {}, onBatch(list) {
		for (const m of list) if (m.name === "commit") folded.apply(m.data);
		if (folded.seq >= state.seq) ended.abort();
	} });
	const differences = [];
	let n = 0;
	const step = Math.max(1, Math.floor((state.seq - first) / 40)); // each view is a fold from the beginning
	for (let seq = state.seq; seq >= first; seq -= step, n++) {
		const view = await viewAt(id, seq), look = folded.at(seq);
		const texts = new Map(view.messages.map((m) => [m.id, m.role + " " + m.parts.map((p) => [p.type, p.text ?? "", p.tool ?? "", p.blob?.digest ?? ""].join("|")).join("+")]));
		const want = view.nodes.map((n) => n.id + " " + (texts.get(n.message) ?? n.type ?? ""));
		const got = look.visible().map((n) => n.id + " " + (n.kind === "message" ? n.role + " " + n.parts.map((p) => [p.kind, p.text ?? "", p.tool ?? "", p.blob?.digest ?? ""].join("|")).join("+") : n.type ?? ""));
		if (JSON.stringify(want) !== JSON.stringify(got)) differences.push({ seq, want, got });
	}
	return { differences: differences.slice(0, 3), compared: n };
})`

// compared is the result of [compare].
type compared struct {
	Differences []struct {
		Seq       int
		Want, Got []string
	}
	Compared int
}

// TestSmokeFold compares the browser's fold with the server's, at every sequence of sessions with branches, frames, injected
// messages, appended nodes, failed calls, an approval, and of a copy.
func TestSmokeFold(t *testing.T) {
	t.Parallel()
	b, id := gallery(t)
	runtest.WantError(t, "answer", b.Approve(b.Ctx, id, events.ToolApprovalGiven{Effect: "t4/0/0"}), nil)
	b.Model.Rescript(harness.Reply(harness.Text("Then not.")), harness.Reply(harness.Text("In a frame.")), harness.Reply(harness.Text("In a copy.")))
	b.AwaitTurn(id, "t4")
	nodes := b.AppendTexts(id, "one", "two", "three")
	_, err := b.OpenFrame(b.Ctx, id, api.FrameRequest{Frame: "f2", Reason: "compaction", Keep: nodes[1], Nodes: harness.UserMessages("a summary")})
	runtest.WantError(t, "frame", err, nil)
	_, err = b.Inject(b.Ctx, id, api.InjectRequest{ID: "i1", Role: events.RoleUser, Parts: []events.Part{harness.Text("injected")}})
	runtest.WantError(t, "inject", err, nil)
	b.RunTurn(id, "t5", harness.Text("Go on."))
	fork, err := b.Fork(b.Ctx, id, api.CreateRequest{ID: "copy"})
	runtest.WantError(t, "fork", err, nil)
	b.RunTurn(fork, "t1", harness.Text("And here?"))
	_, err = b.OpenFrame(b.Ctx, id, api.FrameRequest{Frame: "f3", Reason: "continue_as"})
	runtest.WantError(t, "frame", err, nil)
	runtest.WantError(t, "branch", b.BranchTo(b.Ctx, id, nodes[0]), nil)
	b.AppendTexts(id, "after a branch")

	d := serve(t, b, httpapi.Config{})
	p := browse(t, d.URL, desktop)
	p.open("", "reader")
	if sum := p.compareFolds(id, fork, "long-transcript", "old-experiment"); sum < 25 {
		t.Errorf("compared %d sequences, want all", sum)
	}
}

// compareFolds compares sessions, and returns the number of compared sequences.
func (b *tab) compareFolds(list ...events.SessionID) (sum int) {
	b.Helper()
	for _, session := range list {
		got, err := chromedp.Run(b.ctx, chromedp.Evaluate[compared](fmt.Sprintf("%s(%s)", compare, quoted(string(session))), chromedp.EvalAwaitPromise))
		runtest.WantError(b.T, "compare", err, nil)
		for _, d := range got.Differences {
			b.Errorf("%s at %d: got %q, want %q", session, d.Seq, d.Got, d.Want)
		}
		sum += got.Compared
	}
	return sum
}

// TestFoldOfRecordings does the same for the ends and about 40 earlier sequences of recorded conversations, which are played through the runtime.
func TestFoldOfRecordings(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	c, err := playback.Open(b.Ctx, playback.StageConfig{})
	runtest.WantError(t, "converter", err, nil)
	defer c.Close()
	var list []events.SessionID
	convs := recordingtest.Read(recordingtest.Make(1, recording.FormatChat, 30), recordingtest.Make(1, recording.FormatPi, 60))
	for i := range convs {
		a, err := c.Convert(b.Ctx, playback.NewPlan(events.SessionID(fmt.Sprintf("recorded-%d", i)), &convs[i]))
		runtest.WantError(t, "convert", err, nil)
		_, err = archive.Restore(b.Ctx, b.Bus, a)
		runtest.WantError(t, "restore", err, nil)
		list = append(list, a.Session)
	}
	d := serve(t, b, httpapi.Config{})
	p := browse(t, d.URL, desktop)
	p.open("#/s/"+string(list[0]), "reader")
	p.awaitText(".headline", "Last turn")
	t.Logf("%d sequences of %d recorded conversations are equal", p.compareFolds(list...), len(list))
}
