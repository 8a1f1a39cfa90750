package projector_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
)

// working is a turn with two calls, the first of which has its result.
func working(t *testing.T) *history {
	t.Helper()
	h := begin(t).add("", &events.ToolStateApplied{Generation: 1, Tools: []events.ToolEntry{{Name: "t"}}})
	h.add("", &events.InputInjected{Input: "i1", Role: events.RoleUser, Parts: []events.Part{text("psst")}})
	h.add("t1", &events.TurnRequested{Input: events.TurnInput{Parts: []events.Part{text("go")}}})
	h.add("t1", &events.TurnStarted{Attempt: 1, Worker: "w1"})
	h.add("t1", &events.ModelReplied{Parts: []events.Part{call("a"), call("b")}, Stop: events.StopToolUse, Usage: events.Usage{Input: 5}})
	return h.add("t1", &events.ToolReturned{Results: []events.ToolResult{{Call: 0, Text: "one"}}})
}

// TestApplyIgnores folds events that do not fit: only counters change.
func TestApplyIgnores(t *testing.T) {
	t.Parallel()
	finished := func(t *testing.T) *history {
		return working(t).add("t1", &events.TurnCompleted{End: events.EndFinished})
	}
	tests := []struct {
		name    string
		base    func(*testing.T) *history
		turn    events.TurnID
		payload events.Payload
	}{
		{"second_result", working, "t1", &events.ToolReturned{Results: []events.ToolResult{{Call: 0, Text: "two"}}}},
		{"result_of_no_call", working, "t1", &events.ToolReturned{Results: []events.ToolResult{{Call: 9, Text: "two"}}}},
		{"result_of_later_iteration", working, "t1", &events.ToolReturned{Iteration: 1, Results: []events.ToolResult{{Call: 1}}}},
		{"result_of_other_turn", working, "t2", &events.ToolReturned{Results: []events.ToolResult{{Call: 1}}}},
		{"result_of_finished_turn", finished, "t1", &events.ToolReturned{Results: []events.ToolResult{{Call: 1}}}},
		{"lost_after_result", working, "t1", &events.ToolLost{Calls: []int64{0}}},
		{"lost_of_no_call", working, "t1", &events.ToolLost{Calls: []int64{9}}},
		{"lost_of_other_iteration", working, "t1", &events.ToolLost{Iteration: 3, Calls: []int64{1}}},
		{"called_of_other_turn", working, "t2", &events.ToolCalled{Calls: []int64{1}}},
		{"called_of_no_call", working, "t1", &events.ToolCalled{Calls: []int64{7}}},
		{"second_reply", working, "t1", &events.ModelReplied{Parts: []events.Part{text("x")}, Stop: events.StopEnd, Usage: events.Usage{Input: 9}}},
		{"reply_of_later_iteration", working, "t1", &events.ModelReplied{Iteration: 1, Stop: events.StopEnd, Usage: events.Usage{Input: 9}}},
		{"reply_of_unknown_turn", working, "t9", &events.ModelReplied{Stop: events.StopEnd, Usage: events.Usage{Input: 9}}},
		{"failure", working, "t1", &events.ModelFailed{Error: "server"}},
		{"start_of_unknown_turn", working, "t9", &events.TurnStarted{Attempt: 1, Worker: "w2"}},
		{"start_of_finished_turn", finished, "t1", &events.TurnStarted{Attempt: 2, Worker: "w2"}},
		{"completion_of_unknown_turn", working, "t9", &events.TurnCompleted{End: events.EndFinished}},
		{"second_completion", finished, "t1", &events.TurnCompleted{End: events.EndCancelled}},
		{"diversion_of_unknown_turn", working, "t9", &events.TurnDiverted{End: events.EndRejected, By: "t1"}},
		{"diversion_of_running_turn", working, "t1", &events.TurnDiverted{End: events.EndInjected, By: "t0", At: events.AtAfterWork}},
		{"diversion_of_finished_turn", finished, "t1", &events.TurnDiverted{End: events.EndRejected, By: "t0"}},
		{"cancel_of_unknown_turn", working, "t9", &events.TurnCancelRequested{Request: "r"}},
		{"cancel_of_finished_turn", finished, "t1", &events.TurnCancelRequested{Request: "r"}},
		{"input_twice", working, "", &events.InputInjected{Input: "i1", Role: events.RoleUser, Parts: []events.Part{text("again")}}},
		{"acceptance_of_unknown_input", working, "t1", &events.InputAccepted{Inputs: []events.InputID{"i9"}, At: events.AtAfterWork}},
		{"cancel_of_unknown_input", working, "", &events.InputCancelled{Inputs: []events.InputID{"i9"}}},
		{"current_frame", working, "", &events.FrameOpened{Frame: "s1:frame:initial", Reason: "x", Nodes: []events.NewNode{
			{ID: "n", Kind: events.NodePlugin, Type: "x"},
		}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := tt.base(t)
			want := h.Clone()
			want.Seq, want.Events, want.UpdatedAt = want.Seq+1, want.Events+1, 100+events.Millis(want.Seq)
			h.add(tt.turn, tt.payload)
			want.Proof, want.Stored = h.Proof, h.Stored // every commit is a leaf, and has a size
			if got := head(t, h.State); !bytes.Equal(got, head(t, want)) {
				t.Errorf("head: got %q, want %q", got, head(t, want))
			}
			runtest.WantError(t, "check", h.Check(), nil)
		})
	}
}

// TestApplySecondCancel keeps the first cancel request.
func TestApplySecondCancel(t *testing.T) {
	t.Parallel()
	h := working(t).add("t1", &events.TurnCancelRequested{Request: "r1", Reason: "first"})
	h.add("t1", &events.TurnCancelRequested{Request: "r2", Reason: "second"})
	if got := h.Turn().Cancel; got.Request != "r1" || got.Reason != "first" {
		t.Errorf("evidence: got %v, want that of r1", got)
	}
}

// TestApplySettled settles an input once.
func TestApplySettled(t *testing.T) {
	t.Parallel()
	h := working(t)
	digest := h.Inputs[0].Digest()
	h.add("t1", &events.InputAccepted{Inputs: []events.InputID{"i1"}, At: events.AtAfterWork})
	h.add("", &events.InputCancelled{Inputs: []events.InputID{"i1"}})
	got, err := h.Settled("i1")
	if err != nil || got == nil || *got != (projector.SettledInput{ID: "i1", Digest: digest, Accepted: true}) {
		t.Errorf("settled: got %v, %v, want i1 accepted", got, err)
	}
	if want := []string{"user psst"}; !slices.Equal(transcript(view(t, h.State).Messages)[2:], want) {
		t.Errorf("messages: got %q, want %q at the end", transcript(view(t, h.State).Messages), want)
	}
	if n, err := h.Node("m_ingress_i1"); err != nil || n == nil || n.Turn != "t1" {
		t.Errorf("node m_ingress_i1: got %v, %v, want one of t1", n, err)
	}
}

// TestApplyEveryKind checks that each kind has a case, also a kind without an effect on the state.
func TestApplyEveryKind(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "apply.go", nil, 0)
	runtest.NoError(t, err)
	cases := make(map[string]bool)
	ast.Inspect(file, func(n ast.Node) bool {
		if c, ok := n.(*ast.CaseClause); ok {
			for _, of := range c.List {
				if star, ok := of.(*ast.StarExpr); ok {
					if of, ok := star.X.(*ast.SelectorExpr); ok {
						cases[strings.ToLower(of.Sel.Name)] = true
					}
				}
			}
		}
		return true
	})
	for _, kind := range events.Kinds() { // a kind and its type are the same words
		if !cases[strings.NewReplacer(".", "", "_", "").Replace(string(kind))] {
			t.Errorf("%s has no case in apply.go", kind)
		}
	}
}

// TestApplyUnknownKind: a kind of a later version folds to nothing.
func TestApplyUnknownKind(t *testing.T) {
	t.Parallel()
	h := working(t)
	want := h.Clone()
	want.Seq, want.Events, want.UpdatedAt = want.Seq+1, want.Events+1, 9
	c := &events.Commit{Session: sid, At: 9, Events: []events.Event{{Kind: "later.happened", V: 3, Raw: []byte{0xc0}}}}
	runtest.NoError(t, h.Apply(events.Entry{Seq: h.Seq + 1, Commit: c}))
	want.Proof, want.Stored = h.Proof, h.Stored // every commit is a leaf, and has a size
	if got := head(t, h.State); !bytes.Equal(got, head(t, want)) {
		t.Errorf("head: got %q, want %q", got, head(t, want))
	}
}

// TestApplyOutOfOrder refuses commits that do not follow.
func TestApplyOutOfOrder(t *testing.T) {
	t.Parallel()
	h := begin(t)
	commit := func(session events.SessionID) *events.Commit {
		return &events.Commit{Session: session, Events: []events.Event{events.Of("", &events.SessionClosed{})}}
	}
	for name, e := range map[string]events.Entry{
		"again":   {Seq: 1, Commit: commit(sid)},
		"gap":     {Seq: 3, Commit: commit(sid)},
		"session": {Seq: 2, Commit: commit("other")},
	} {
		runtest.WantError(t, name, h.Apply(e), projector.ErrOutOfOrder)
	}
	if h.Seq != 1 || h.Status != projector.StatusOpen {
		t.Errorf("state: got %d, %q, want 1, open", h.Seq, h.Status)
	}
}

// TestApplyOpening counts the commits of initial nodes.
func TestApplyOpening(t *testing.T) {
	t.Parallel()
	h := &history{t, projector.New(sid)}
	for i, want := range []projector.Status{projector.StatusOpening, projector.StatusOpening, projector.StatusOpen, projector.StatusOpen} {
		if i == 0 {
			h.add("", &events.SessionOpened{Commits: 2})
		} else {
			h.note(events.NodeID('a' + rune(i)))
		}
		if h.Status != want {
			t.Errorf("status after commit %d: got %q, want %q", i+1, h.Status, want)
		}
	}
	if h.add("", &events.SessionClosed{}).Status != projector.StatusClosed {
		t.Errorf("status: got %q, want closed", h.Status)
	}
}

// TestLedger sums usage by model, sorted.
func TestLedger(t *testing.T) {
	t.Parallel()
	h := begin(t)
	for i, model := range []string{"z", "a", "z", "m"} {
		id := events.TurnID('a' + rune(i))
		h.add(id, &events.TurnRequested{}, &events.TurnStarted{Attempt: 1, Worker: "w"})
		h.add(id, &events.ModelReplied{Parts: []events.Part{text("x")}, Stop: events.StopEnd, Model: model, Usage: events.Usage{Input: 1, Output: 2}})
		h.add(id, &events.TurnCompleted{End: events.EndFinished})
	}
	one, two := events.Usage{Input: 1, Output: 2}, events.Usage{Input: 2, Output: 4}
	want := []projector.LedgerEntry{{"turn", "a", one}, {"turn", "m", one}, {"turn", "z", two}}
	runtest.EqualLists(t, "ledger", h.Ledger, want)
}

// TestTurnRecords checks how turns ended.
func TestTurnRecords(t *testing.T) {
	t.Parallel()
	h := working(t).add("t2", &events.TurnRequested{}).add("t2", &events.TurnCompleted{End: events.EndCancelled})
	h.add("t1", &events.TurnStarted{Attempt: 2, Worker: "w2"}, &events.ToolLost{Calls: []int64{1}},
		&events.TurnCompleted{End: events.EndMaxTurns, Notice: "n"})
	records, err := h.Records()
	runtest.NoError(t, err)
	input := func(in events.TurnInput) string { return projector.InputDigest(in) }
	want := []projector.TurnRecord{
		{ID: "t2", Input: input(events.TurnInput{}), End: events.EndCancelled, RequestedAt: 107, CompletedAt: 108, Leaf: "a-t1-0", Seq: 9, Asked: 8},
		{
			ID: "t1", Index: 1, Input: input(events.TurnInput{Parts: []events.Part{text("go")}}), End: events.EndMaxTurns, Attempts: 2,
			ModelCalls: 1, ToolCalls: 2, Usage: events.Usage{Input: 5}, Leaf: "n", RequestedAt: 103, StartedAt: 104, CompletedAt: 109, Seq: 10, Asked: 4,
		},
	}
	runtest.EqualLists(t, "records", records, want)
	if !h.Idle() || h.Turns != 1 {
		t.Errorf("after: got idle %v, %d turns, want idle, 1", h.Idle(), h.Turns)
	}
	for _, want := range want {
		if got, err := h.Record(want.ID); err != nil || got == nil || *got != want {
			t.Errorf("Record(%s): got %v, %v, want %v", want.ID, got, err, want)
		}
	}
}

// TestCommittedChecks breaks an invariant between two commits: in builds with the tag invariants the end of a commit
// that was folded event by event panics, as Apply does.
func TestCommittedChecks(t *testing.T) {
	t.Parallel()
	c := &events.Commit{ID: "c1", Session: sid, At: 1, Events: []events.Event{events.Of("", &events.SessionOpened{})}}
	for name, end := range map[string]func(*projector.State) error{
		"committed": func(s *projector.State) error { return s.Committed(c) },
		"unproven":  func(s *projector.State) error { s.CommittedUnproven(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := projector.New(sid)
			s.ApplyUncommitted(&c.Events[0], c.At)
			s.Nodes++
			defer func() {
				if got := recover(); (got != nil) != projector.Invariants {
					t.Errorf("got panic %v, want one: %t", got, projector.Invariants)
				}
			}()
			runtest.WantError(t, "end", end(s), nil)
		})
	}
}

// TestCheck finds violated invariants.
func TestCheck(t *testing.T) {
	if projector.Invariants {
		t.Skip("this build does not let broken histories be folded")
	}
	t.Parallel()
	tests := map[string]func(*history){
		"leaf":       func(h *history) { h.Leaf = "x" },
		"count":      func(h *history) { h.Nodes++ },
		"two_nodes":  func(h *history) { h.note("u-t1") },
		"queued_too": func(h *history) { h.add("t1", &events.TurnRequested{}) },
		"two_run":    func(h *history) { h.Run = append(h.Run, projector.Turn{ID: "t2"}) },
		"frames":     func(h *history) { h.Frames = nil },
		"same_frame": func(h *history) { h.Frames = append(h.Frames, h.Frames[0]) },
		"same_input": func(h *history) { h.Inputs = append(h.Inputs, h.Inputs[0]) },
		"catalogue":  func(h *history) { h.Catalog.Tools = []events.ToolEntry{{Name: "b"}, {Name: "a"}} },
	}
	for name, breakIt := range tests {
		h := working(t)
		runtest.NoError(t, h.Check())
		if breakIt(h); h.Check() == nil {
			t.Errorf("%s: got nil, want an error", name)
		}
	}
}
