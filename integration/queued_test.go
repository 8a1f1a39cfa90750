package integration

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// asksTurn is a request for a turn.
func asksTurn(turn events.TurnID, s string) api.TurnRequest {
	return api.TurnRequest{ID: turn, Input: events.TurnInput{Parts: []events.Part{text(s)}}}
}

// submitOn asks a host for a turn.
func submitOn(b *bundle, h *session.Host, id events.SessionID, req api.TurnRequest) error {
	_, err := h.Submit(b.ctx, id, req)
	return err
}

// TestQueuedDifferent asks for other input under the id of a turn that waits in the queue, where no worker is.
func TestQueuedDifferent(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(text("hi")))
	id := b.open(api.CreateRequest{})
	knows := b.otherHost()
	_, err := knows.State(b.ctx, id)
	must(t, "state", err, nil)
	must(t, "submit", submitOn(b, b.Host, id, asksTurn("t1", "one")), nil)
	for name, h := range map[string]*session.Host{"same": b.Host, "other": knows, "new": b.otherHost()} {
		must(t, "other input on the "+name+" host", submitOn(b, h, id, asksTurn("t1", "two")), api.ErrDifferent)
		must(t, "the same input on the "+name+" host", submitOn(b, h, id, asksTurn("t1", "one")), nil)
		_, err := h.Run(b.ctx, id, asksTurn("t1", "two"))
		must(t, "run with other input on the "+name+" host", err, api.ErrDifferent)
	}
	equal(t, "what is recorded", b.last(id), 2)
	b.work(bustest.Open(t, b.server))
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	equalLists(t, "messages", b.messages(id), []string{"user one", "assistant hi"})
	equal(t, "requests", len(find[*events.TurnRequested](b, id)), 1)
	for name, h := range map[string]*session.Host{"same": b.Host, "other": knows} {
		_, err := h.Run(b.ctx, id, asksTurn("t1", "two"))
		must(t, "other input after its end on the "+name+" host", err, api.ErrDifferent)
	}
}

// TestQueuedAwait waits for a turn before any worker looks at it.
func TestQueuedAwait(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(text("hi")))
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("hello"))
	hosts := []*session.Host{b.Host, b.otherHost(), b.otherHost()}
	_, err := hosts[1].State(b.ctx, id)
	must(t, "state", err, nil)
	for i, h := range hosts {
		_, err := h.Await(b.ctx, id, "t2")
		must(t, "await a turn that nobody asked for", err, api.ErrUnknownTurn)
		short, cancel := context.WithCancelCause(b.ctx)
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
		wait.Go(func() { results[i], errs[i] = h.Await(b.ctx, id, "t1") })
	}
	b.work(bustest.Open(t, b.server))
	wait.Wait()
	for i := range hosts {
		must(t, "await", errs[i], nil)
		equal(t, "text", results[i].Text, "hi")
		equal(t, "end", results[i].End, events.EndFinished)
	}
}

// TestQueuedClosed closes a session in which a turn waits that no worker has
// seen: the close is refused, and the turn runs.
func TestQueuedClosed(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(text("hi")))
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("hello"))
	for _, h := range []*session.Host{b.Host, b.otherHost()} {
		must(t, "close", h.CloseSession(b.ctx, id, "over"), api.ErrTurnRunning)
	}
	b.work(bustest.Open(t, b.server))
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	must(t, "close", b.CloseSession(b.ctx, id, "over"), nil)
	must(t, "submit", submitOn(b, b.otherHost(), id, asksTurn("t2", "late")), api.ErrClosed)
	verified(t, b.bus, id)
}

// TestQueuedCancel cancels a turn before any worker took its command: it ends without having run.
func TestQueuedCancel(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(text("second")))
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("first"))
	b.submit(id, "t2", text("go"))
	other := b.otherHost()
	_, _, err := b.Cancel(b.ctx, id, "t9", api.CancelRequest{})
	must(t, "cancel of what nobody asked for", err, api.ErrUnknownTurn)
	first := api.CancelRequest{ID: "r1", Origin: "test", Reason: "enough"}
	equal(t, "evidence", b.cancel(id, "t1", first, api.CancelRequested), first)
	for name, h := range map[string]*session.Host{"same": b.Host, "other": other} {
		receipt, evidence, err := h.Cancel(b.ctx, id, "t1", api.CancelRequest{ID: "r2", Reason: "again"})
		must(t, "cancel on the "+name+" host", err, nil)
		equal(t, "receipt of the second", receipt, api.CancelAlreadyRequested)
		equal(t, "evidence is the first's", evidence, first)
	}
	s := b.state(id)
	equal(t, "recorded", len(s.Queue) == 2 && s.Queue[0].ID == "t1" && s.Queue[0].Cancelled, true)
	must(t, "the same again", submitOn(b, other, id, asksTurn("t1", "first")), nil)
	must(t, "other input", submitOn(b, other, id, asksTurn("t1", "another")), api.ErrDifferent)

	waits := make(chan api.TurnResult, 1)
	go func() {
		r, err := other.Await(b.ctx, id, "t1")
		must(t, "await", err, nil)
		waits <- r
	}()
	b.work(bustest.Open(t, b.server))
	equal(t, "end", receive(b, "whoever waits", waits).End, events.EndCancelled)
	equal(t, "end of the next", b.ended(id, "t2").End, events.EndFinished)
	equalLists(t, "messages", b.messages(id), []string{"user go", "assistant second"})
	equal(t, "requests for the first", requests(b, id, "t1"), 1)
	equal(t, "cancels", len(find[*events.TurnCancelRequested](b, id)), 1)
	b.cancel(id, "t1", api.CancelRequest{}, api.CancelCompletionWon)
}

// TestQueuedCancelRace has many cancel at once, as a worker begins: of the turn one request and one cancel are recorded.
func TestQueuedCancelRace(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("first"))
	b.model.say("it was faster")
	evidence := make([]api.CancelRequest, 4)
	var wait sync.WaitGroup
	for i := range evidence {
		h := b.otherHost()
		wait.Go(func() {
			receipt, got, err := h.Cancel(b.ctx, id, "t1", api.CancelRequest{ID: string(rune('a' + i))})
			must(t, "cancel", err, nil)
			if receipt != api.CancelCompletionWon {
				evidence[i] = got
			}
		})
	}
	b.work(bustest.Open(t, b.server))
	wait.Wait()
	b.ended(id, "t1")
	equal(t, "requests", requests(b, id, "t1"), 1)
	cancels := find[*events.TurnCancelRequested](b, id)
	equal(t, "cancels", len(cancels) <= 1, true)
	for _, got := range evidence {
		if got.ID != "" { // it came before the end
			equal(t, "evidence", len(cancels) == 1 && got.ID == cancels[0].Request, true)
		}
	}
	b.await(id, "the end", func(s *projector.State) bool { return s.Idle() })
}

// TestQueuedCancelKilled kills the node that took the command of a cancelled turn.
func TestQueuedCancelKilled(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("first"))
	b.cancel(id, "t1", api.CancelRequest{ID: "r1"}, api.CancelRequested)
	for range 3 {
		b.work(bustest.Open(t, b.server))() // killed at once, wherever it was
	}
	b.work(bustest.Open(t, b.server))
	equal(t, "end", b.ended(id, "t1").End, events.EndCancelled)
	equal(t, "ends", len(find[*events.TurnCompleted](b, id)), 1)
	equalLists(t, "messages", b.messages(id), []string{})
}

// requests counts how often a turn was asked for in the history.
func requests(b *bundle, id events.SessionID, turn events.TurnID) (n int) {
	b.t.Helper()
	for _, e := range b.history(id) {
		if e.Turn == turn && e.Kind == events.KindTurnRequested {
			n++
		}
	}
	return n
}
