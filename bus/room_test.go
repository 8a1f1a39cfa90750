package bus_test

import (
	"errors"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
)

// TestAskRoom has a worker hold two jobs, of which it gives one back for each
// question: whoever takes from the queue next gets that one before what came later.
func TestAskRoom(t *testing.T) {
	t.Parallel()
	s := bustest.Server(t, busembed.Config{})
	b, other := bustest.Open(t, s), bustest.Open(t, s)
	for _, id := range []string{"t1", "t2"} {
		if err := b.Enqueue(t.Context(), bus.ClassTurn, "s1", id, nil); err != nil {
			t.Fatal(err)
		}
	}
	w, err := b.Work(t.Context(), bus.ClassTurn)
	if err != nil {
		t.Fatal(err)
	}
	held := []*bus.Job{next(t, w), next(t, w)}
	if err := other.AskRoom(t.Context(), bus.ClassTurn); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("ask where nobody offers: got %v, want %v", err, bus.ErrNotFound)
	}
	stop, err := w.Room(func() {
		if len(held) == 0 {
			t.Error("asked by whoever wants no answer in an inbox")
			return
		}
		if err := held[0].HandBack(t.Context()); err != nil {
			t.Error(err)
		}
		held = held[1:]
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"lash.room.task", "lash.room.turn"} {
		if err := b.Conn().PublishRequest(subject, "lash.work.turn.s1.t9", nil); err != nil { // after the offer, and before what comes of it
			t.Fatal(err)
		}
	}
	if err := b.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	theirs, err := other.Work(t.Context(), bus.ClassTurn)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"t1", "t2"} {
		if err := other.AskRoom(t.Context(), bus.ClassTurn); err != nil {
			t.Fatal(err)
		}
		if err := b.Enqueue(t.Context(), bus.ClassTurn, "s1", "after-"+want, nil); err != nil {
			t.Fatal(err)
		}
		if j := next(t, theirs); j.ID != want || j.Deliveries != 2 {
			t.Errorf("after the question: got %s delivery %d, want %s 2", j.ID, j.Deliveries, want)
		}
	}
	stop()
	if err := b.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	if err := other.AskRoom(t.Context(), bus.ClassTurn); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("ask after the end of the offer: got %v, want %v", err, bus.ErrNotFound)
	}
}
