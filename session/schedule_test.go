package session_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/task"
)

// soon is a time after the end of the tests.
var soon = time.Now().Add(time.Hour)

func (b *bundle) submitAt(id events.TurnID, at time.Time) {
	b.T.Helper()
	if got, err := b.Host.SubmitAt(b.T.Context(), sid, at, ask(id, "go")); err != nil || got != id {
		b.T.Fatalf("submit %s: got %s, %v", id, got, err)
	}
}

// awaitTimer waits until the session has a timer.
func (b *bundle) awaitTimer() {
	b.T.Helper()
	for {
		list, err := b.Bus.Timers(b.T.Context())
		runtest.NoError(b.T, err)
		if slices.Equal(list, []events.SessionID{sid}) {
			return
		}
	}
}

// TestSubmitAtAgain repeats a request and gets the same turn. Another time, policy or input is a different turn.
func TestSubmitAtAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submitAt("t1", soon)
	b.awaitTimer()
	before := b.State()
	other := b.another(0)
	_, err := other.SubmitAt(t.Context(), sid, soon, ask("t1", "go"))
	runtest.WantError(t, "the same again", err, nil)
	reject := ask("t1", "go")
	reject.WhenBusy = api.WhenBusyReject
	for name, do := range map[string]func() error{
		"time": func() error {
			_, err := other.SubmitAt(t.Context(), sid, soon.Add(time.Millisecond), ask("t1", "go"))
			return err
		},
		"policy": func() error { _, err := other.SubmitAt(t.Context(), sid, soon, reject); return err },
		"input":  func() error { _, err := other.SubmitAt(t.Context(), sid, soon, ask("t1", "stop")); return err },
		"submit": func() error { _, err := other.Submit(t.Context(), sid, ask("t1", "stop")); return err },
	} {
		runtest.WantError(t, fmt.Sprintf("other %s", name), do(), api.ErrDifferent)
	}
	for _, at := range []time.Time{{}, time.UnixMilli(-1), time.UnixMilli(1 << 50)} {
		_, err := other.SubmitAt(t.Context(), sid, at, ask("never", "go"))
		runtest.WantError(t, fmt.Sprintf("at %v", at), err, events.ErrInvalid)
	}
	b.unchanged(before, "refused")
}

// TestSubmitBeforeItsTime starts the turn at once. It stays at its position in the history.
func TestSubmitBeforeItsTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submitAt("t1", soon)
	accepted := b.State().Seq
	for range 2 {
		if a, err := b.another(0).SubmitTurn(t.Context(), sid, ask("t1", "go")); err != nil || a.Seq != accepted {
			t.Errorf("got %+v, %v, want it accepted at %d", a, err, accepted)
		}
	}
	if s := b.State(); len(s.Queue) != 1 || s.Queue[0].Seq != accepted || len(s.Scheduled) != 0 || s.Seq != accepted+1 {
		t.Errorf("got %+v, %d scheduled", s.Queue, len(s.Scheduled))
	}
	before := b.State()
	b.submitAt("t1", soon)
	b.submitAt("t1", soon.Add(time.Hour)) // the time no longer matters
	b.unchanged(before, "scheduled again")
	b.takeWake()
}

// TestCancelBeforeItsTime ends the turn without a run.
func TestCancelBeforeItsTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submitAt("t1", soon)
	receipt, evidence, err := b.another(0).Cancel(t.Context(), sid, "t1", api.CancelRequest{ID: "r", Reason: "no"})
	if err != nil || receipt != api.CancelRequested || evidence.ID != "r" {
		t.Errorf("got %s, %+v, %v", receipt, evidence, err)
	}
	if receipt, _, err = b.Host.Cancel(t.Context(), sid, "t1", api.CancelRequest{ID: "r2"}); err != nil || receipt != api.CancelCompletionWon {
		t.Errorf("again: got %s, %v, want %s", receipt, err, api.CancelCompletionWon)
	}
	before := b.State()
	if r, err := b.Host.Await(t.Context(), sid, "t1"); err != nil || r.End != events.EndCancelled || r.Attempts != 0 {
		t.Errorf("await: got %+v, %v", r, err)
	}
	b.submitAt("t1", soon) // a repeat of the ended turn
	b.unchanged(before, "scheduled again")
	_, _, err = b.Host.Cancel(t.Context(), sid, "none", api.CancelRequest{})
	runtest.WantError(t, "unknown", err, api.ErrUnknownTurn)
}

// TestCloseEndsAll closes a session with the largest number of scheduled turns and live tasks. One commit ends all of
// them, or none.
func TestCloseEndsAll(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = session.DefaultMaxQueued - 1
	for i := range task.MaxLive {
		id := events.TaskID(fmt.Sprintf("%s%04d", strings.Repeat("k", 44), i))
		_, err := b.Host.RegisterTask(t.Context(), sid, api.TaskRequest{ID: id, Of: events.TaskTool, Producer: "x", Close: events.CloseCancel})
		runtest.NoError(t, err)
	}
	_, err := b.Host.Submit(t.Context(), sid, ask("now", "go"))
	runtest.NoError(t, err)
	for i := range n {
		b.submitAt(events.TurnID(fmt.Sprintf("t%d", i)), soon.Add(time.Duration(i%7)*time.Minute))
	}
	if got := len(b.State().Scheduled); got != n {
		t.Fatalf("scheduled: got %d, want %d", got, n)
	}
	before := b.State()
	runtest.WantError(t, "with a turn in the queue", b.Host.CloseSession(t.Context(), sid, "over"), api.ErrTurnRunning)
	b.unchanged(before, "refused")
	b.Append("now", &events.TurnCompleted{End: events.EndFailed})
	runtest.NoError(t, b.Host.CloseSession(t.Context(), sid, "over"))
	s := b.State()
	if s.Seq != before.Seq+2 || len(task.Live(s)) != 0 {
		t.Errorf("got to %d with %d live tasks, want one commit, and none", s.Seq, len(task.Live(s)))
	}
	records, err := s.Records()
	records = slices.DeleteFunc(records, func(r projector.TurnRecord) bool { return r.ID == "now" })
	if err != nil || len(records) != n || len(s.Scheduled) != 0 || len(s.Queue) != 0 {
		t.Fatalf("got %d records, %v, %d scheduled, %d queued", len(records), err, len(s.Scheduled), len(s.Queue))
	}
	for _, r := range records {
		runtest.Equal(t, fmt.Sprintf("turn %s", r.ID), r.End, events.EndCancelled)
	}
	_, err = b.Host.SubmitAt(t.Context(), sid, soon, ask("late", "go"))
	runtest.WantError(t, "after the close", err, api.ErrClosed)
}

// TestScheduledTurnsCount checks that scheduled turns count against the limit of waiting turns.
func TestScheduledTurnsCount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.another(4)
	for i := range 4 {
		var err error
		if id := events.TurnID(fmt.Sprint("t", i)); i%2 == 0 {
			_, err = h.Submit(t.Context(), sid, ask(id, "go"))
		} else {
			_, err = h.SubmitAt(t.Context(), sid, soon, ask(id, "go"))
		}
		runtest.NoError(t, err)
	}
	if _, err := h.Submit(t.Context(), sid, ask("more", "go")); !errors.As(err, new(*api.LimitError)) {
		t.Errorf("submit: got %v, want the limit", err)
	}
	if _, err := h.SubmitAt(t.Context(), sid, soon, ask("more", "go")); !errors.As(err, new(*api.LimitError)) {
		t.Errorf("submit at: got %v, want the limit", err)
	}
	_, err := h.Submit(t.Context(), sid, ask("t1", "go"))
	runtest.WantError(t, "one that is scheduled", err, nil)
}

// TestResolveAt keeps the first time of a call.
func TestResolveAt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pending(2)
	at := func(h *session.Host, effect events.EffectID, at time.Time, text string) error {
		return h.ResolveAt(t.Context(), sid, effect, at, events.ToolResult{Text: text})
	}
	runtest.NoError(t, at(b.Host, "t1/0/0", soon, "first"))
	b.awaitTimer()
	before := b.State()
	runtest.WantError(t, "again", at(b.another(0), "t1/0/0", soon.Add(-time.Minute), "second"), nil)
	b.unchanged(before, "again")
	if r := b.State().Turn().TimedResult("t1/0/0"); r == nil || r.Result.Text != "first" || r.At != events.MillisOf(soon) {
		t.Errorf("got %+v, want the first", r)
	}
	for _, effect := range []events.EffectID{"t1/0/2", "t1/1/0", "t2/0/0", "x"} {
		runtest.WantError(t, string(effect), at(b.Host, effect, soon, ""), api.ErrUnknownTurn)
	}
	runtest.WantError(t, "resolve before the time", b.Host.ResolveTool(t.Context(), sid, "t1/0/0", events.ToolResult{Text: "sooner"}), nil)
	runtest.WantError(t, "of a call that has its result", at(b.Host, "t1/0/0", soon, "late"), api.ErrUnknownTurn)
	_, _, err := b.Host.Cancel(t.Context(), sid, "t1", api.CancelRequest{})
	runtest.NoError(t, err)
	runtest.WantError(t, "of a cancelled turn", at(b.Host, "t1/0/1", soon, "late"), api.ErrUnknownTurn)
}

// TestResolveTool keeps the first result, from whichever host.
func TestResolveTool(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pending(1)
	b.takeWake() // of the request
	before := b.State()
	var all sync.WaitGroup
	done := make(chan error, 8)
	for i := range cap(done) {
		h := b.another(0)
		all.Go(func() { done <- h.ResolveTool(t.Context(), sid, "t1/0/0", events.ToolResult{Text: fmt.Sprint(i)}) })
	}
	all.Wait()
	close(done)
	resolved := 0
	for err := range done {
		if err == nil {
			resolved++
		} else if !errors.Is(err, api.ErrResolved) {
			t.Errorf("got %v, want %v", err, api.ErrResolved)
		}
	}
	if got := b.history(before.Seq); resolved != 1 || !slices.Equal(got, []events.Kind{events.KindToolResolved}) {
		t.Errorf("resolved %d times, history %v, want once", resolved, got)
	}
	runtest.WantError(t, "unknown key", b.Host.ResolveTool(t.Context(), sid, "t1/0/1", events.ToolResult{}), api.ErrUnknownTurn)
	b.takeWake()
}

// TestApprove keeps the first answer. A repeat publishes the wake again, and a different answer is refused.
func TestApprove(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.running(1)
	b.Append("t1", &events.ToolApprovalAsked{Effect: "t1/0/0", Tool: "t"})
	approve := func(h *session.Host, effect events.EffectID, granted bool) error {
		return h.Approve(t.Context(), sid, events.ToolApprovalGiven{Effect: effect, Granted: granted, By: "mum"})
	}
	b.takeWake() // of the request
	runtest.NoError(t, approve(b.Host, "t1/0/0", true))
	b.takeWake()
	before := b.State()
	if a := before.Turn().Approval("t1/0/0"); a == nil || !a.Answered || !a.Answer.Granted || a.Answer.By != "mum" {
		t.Errorf("got %+v", a)
	}
	other := b.another(0)
	runtest.WantError(t, "the same again", approve(other, "t1/0/0", true), nil)
	b.takeWake()
	runtest.WantError(t, "another answer", approve(other, "t1/0/0", false), api.ErrDifferent)
	runtest.WantError(t, "no question", approve(other, "t1/0/9", true), api.ErrNotAsked)
	b.unchanged(before, "again")
}
