package system

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// TestSmokeQueuedAwait waits for a turn before any worker reads it.
func TestSmokeQueuedAwait(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Text("hi")))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("hello"))
	hosts := []*session.Host{b.Host, b.OtherHost(), b.OtherHost()}
	_, err := hosts[1].State(b.Ctx, id)
	runtest.WantError(t, "state", err, nil)
	for i, h := range hosts {
		_, err := h.Await(b.Ctx, id, "t2")
		runtest.WantError(t, "await a turn that nobody asked for", err, api.ErrUnknownTurn)
		short, cancel := context.WithCancelCause(b.Ctx)
		why := errors.New("gave up")
		cancel(why)
		_, err = h.Await(short, id, "t1")
		if err == nil {
			t.Errorf("await %d without time: got none, want an error", i)
		}
	}
	results := make([]api.TurnResult, len(hosts))
	errs := make([]error, len(hosts))
	var wait sync.WaitGroup
	for i, h := range hosts {
		wait.Go(func() { results[i], errs[i] = h.Await(b.Ctx, id, "t1") })
	}
	b.StartWorker(bustest.Open(t, b.Server))
	wait.Wait()
	for i := range hosts {
		runtest.WantError(t, "await", errs[i], nil)
		runtest.Equal(t, "text", results[i].Text, "hi")
		runtest.Equal(t, "end", results[i].End, events.EndFinished)
	}
}

// TestQueuedCancel cancels a turn before any worker took its command: it ends without a run.
func TestQueuedCancel(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Text("second")))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("first"))
	b.StartTurn(id, "t2", harness.Text("go"))
	other := b.OtherHost()
	_, _, err := b.Cancel(b.Ctx, id, "t9", api.CancelRequest{})
	runtest.WantError(t, "cancel of what nobody asked for", err, api.ErrUnknownTurn)
	first := api.CancelRequest{ID: "r1", Origin: "test", Reason: "enough"}
	runtest.Equal(t, "evidence", b.CancelTurn(id, "t1", first, api.CancelRequested), first)
	for name, h := range map[string]*session.Host{"same": b.Host, "other": other} {
		receipt, evidence, err := h.Cancel(b.Ctx, id, "t1", api.CancelRequest{ID: "r2", Reason: "again"})
		runtest.WantError(t, "cancel on the "+name+" host", err, nil)
		runtest.Equal(t, "receipt of the second", receipt, api.CancelAlreadyRequested)
		runtest.Equal(t, "evidence is the first's", evidence, first)
	}
	s := b.StateOf(id)
	runtest.Equal(t, "recorded", len(s.Queue) == 2 && s.Queue[0].ID == "t1" && s.Queue[0].Cancelled, true)
	runtest.WantError(t, "the same again", harness.SubmitTo(b, other, id, harness.TurnRequest("t1", "first")), nil)
	runtest.WantError(t, "other input", harness.SubmitTo(b, other, id, harness.TurnRequest("t1", "another")), api.ErrDifferent)

	waits := make(chan api.TurnResult, 1)
	go func() {
		r, err := other.Await(b.Ctx, id, "t1")
		runtest.WantError(t, "await", err, nil)
		waits <- r
	}()
	b.StartWorker(bustest.Open(t, b.Server))
	runtest.Equal(t, "end", harness.Receive(b, "whoever waits", waits).End, events.EndCancelled)
	runtest.Equal(t, "end of the next", b.AwaitTurn(id, "t2").End, events.EndFinished)
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user go", "assistant second"})
	runtest.Equal(t, "requests for the first", requests(b, id, "t1"), 1)
	runtest.Equal(t, "cancels", len(harness.Find[*events.TurnCancelRequested](b, id)), 1)
	b.CancelTurn(id, "t1", api.CancelRequest{}, api.CancelCompletionWon)
}

// TestQueuedCancelRace has many clients cancel at once, when a worker starts the turn: the history has one request
// and one cancel of it.
func TestQueuedCancelRace(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("first"))
	b.Model.AddReply("it was faster")
	evidence := make([]api.CancelRequest, 4)
	var wait sync.WaitGroup
	for i := range evidence {
		h := b.OtherHost()
		wait.Go(func() {
			receipt, got, err := h.Cancel(b.Ctx, id, "t1", api.CancelRequest{ID: string(rune('a' + i))})
			runtest.WantError(t, "cancel", err, nil)
			if receipt != api.CancelCompletionWon {
				evidence[i] = got
			}
		})
	}
	b.StartWorker(bustest.Open(t, b.Server))
	wait.Wait()
	b.AwaitTurn(id, "t1")
	runtest.Equal(t, "requests", requests(b, id, "t1"), 1)
	cancels := harness.Find[*events.TurnCancelRequested](b, id)
	runtest.Equal(t, "cancels", len(cancels) <= 1, true)
	for _, got := range evidence {
		if got.ID != "" { // it arrived before the end
			runtest.Equal(t, "evidence", len(cancels) == 1 && got.ID == cancels[0].Request, true)
		}
	}
	b.AwaitState(id, "the end", func(s *projector.State) bool { return s.Idle() })
}

// TestQueuedCancelKilled kills the node that took the command of a cancelled turn.
func TestQueuedCancelKilled(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("first"))
	b.CancelTurn(id, "t1", api.CancelRequest{ID: "r1"}, api.CancelRequested)
	for range 3 {
		b.StartWorker(bustest.Open(t, b.Server))() // killed at once, wherever it was
	}
	b.StartWorker(bustest.Open(t, b.Server))
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndCancelled)
	runtest.Equal(t, "ends", len(harness.Find[*events.TurnCompleted](b, id)), 1)
	runtest.EqualLists(t, "messages", b.Messages(id), []string{})
}

// requests counts the requests of a turn in the history.
func requests(b *harness.System, id events.SessionID, turn events.TurnID) (n int) {
	b.T.Helper()
	for _, e := range b.History(id) {
		if e.Turn == turn && e.Kind == events.KindTurnRequested {
			n++
		}
	}
	return n
}
