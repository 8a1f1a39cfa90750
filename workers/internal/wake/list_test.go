package wake

import (
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/hint"
)

// TestSweepRepairsRowsFirst expects the wake of a session that needs a worker by its row before the request for the list
// of streams.
func TestSweepRepairsRowsFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create("s")
	b.submit("s", "t1")
	b.append("s", "t1", &events.TurnStarted{Attempt: 1, Worker: "w1"})
	b.fetchWake(bus.ClassTurn, true)
	if err := follow.NewProjector(b.bus, nil).Project(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	seen, err := b.bus.Conn().SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	b.sweep.allMayHaveMoved(false)
	b.swept()
	const wake, list = "lash.work.turn.s", "$JS.API.STREAM.LIST"
	var order []string
	for len(order) < 2 {
		msg, err := seen.NextMsg(20 * time.Second)
		if err != nil {
			t.Fatalf("after %v: %v", order, err)
		}
		if msg.Subject == wake || msg.Subject == list {
			order = append(order, msg.Subject)
		}
	}
	if order[0] != wake || order[1] != list {
		t.Errorf("got %v, want the wake first", order)
	}
	if wakes := b.wakes(); len(wakes) != 1 || !wakes[hint.TurnKey("s")] {
		t.Errorf("wakes: got %v, want that of s", wakes)
	}
}

// TestSweepOfClockAhead writes a row with a clock that is ahead: the list of streams corrects its time, but not the
// time of a commit that was seen.
func TestSweepOfClockAhead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ahead, listed := time.Now().Add(time.Hour), time.Now().Add(-time.Minute)
	b.sweep.quiet = 30 * time.Second
	for _, id := range []events.SessionID{"row", "seen"} {
		b.sweep.missing(id, candidate{moved: ahead})
	}
	b.sweep.Moved("seen", 7, false)
	if due := b.sweep.due(); len(due) != 0 {
		t.Errorf("by rows: got %v, want none", due)
	}
	for _, id := range []events.SessionID{"row", "seen"} {
		b.sweep.missing(id, candidate{moved: listed})
	}
	if due := b.sweep.due(); len(due) != 1 || !due["row"].moved.Equal(listed) {
		t.Errorf("by the list: got %v, want the session that was not seen to move", due)
	}
}
