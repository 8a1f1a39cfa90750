package integration

import (
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
)

// TestMailedClaim has the message of a turn whose worker is gone come behind
// those of later turns of the session, to the same worker and all at once: that
// turn is taken over, and those that its message covers come after it.
func TestMailedClaim(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	b := setupIdle(t, first(func() { close(begun); <-release }, reply(text("held"))),
		reply(text("one")), reply(text("two")), reply(text("three")))
	holds, id := b.open(session.CreateRequest{}), b.open(session.CreateRequest{})
	b.submit(holds, "h1", text("hold the only slot"))
	for _, turn := range []events.TurnID{"t2", "t3", "t1"} {
		b.submit(id, turn, text("turn "+string(turn)))
	}
	b.commitTurn(id, &events.TurnRequested{Input: asksTurn("t1", "turn t1").Input}, &events.TurnStarted{Attempt: 1, Worker: "gone"})

	f := &fleet{bundle: b}
	f.answer = b.model.answer
	f.workerOn(bustest.Open(t, b.server), 1)
	receive(b, "the call that holds the slot", begun)
	b.until("all messages are the worker's", func() bool {
		stats, err := b.bus.Stats(b.ctx)
		must(t, "stats", err, nil)
		return stats.Queue[bus.ClassTurn].Held == 4
	})
	close(release)
	for _, turn := range []events.TurnID{"t1", "t2", "t3"} {
		equal(t, "end of "+string(turn), b.ended(id, turn).End, events.EndFinished)
	}
	equalLists(t, "messages", b.messages(id), []string{
		"user turn t1", "assistant one", "user turn t2", "assistant two", "user turn t3", "assistant three",
	})
	equal(t, "attempts of t1", b.ended(id, "t1").Attempts, 2)
	b.unqueued("t1")
}
