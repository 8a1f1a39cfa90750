package run

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/projector/follow"
)

// TestRunAfterLoss loses the commits of a turn that a run has claimed, and puts the stream back without them. The run's turn is superseded, and its plugins are
// closed. Afterwards the state is of the history that is left.
func TestRunAfterLoss(t *testing.T) {
	t.Parallel()
	b := setup(t)
	last := b.State().Seq
	if err := errors.Join(b.Bus.Archive(t.Context(), sid, last), b.Bus.Discard(t.Context(), sid)); err != nil {
		t.Fatal(err)
	}
	r := b.claimed(b.pool("w1", 1, says("hi"), nil), true)
	if r.stack.Stack == nil {
		t.Fatal("the run has no plugins")
	}
	if err := follow.NewProjector(b.Bus, nil).Project(t.Context(), sid); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(b.Bus.Conn())
	if err != nil {
		t.Fatal(err)
	}
	for name := range js.StreamNames(t.Context(), jetstream.WithStreamListSubject("lash.s."+string(sid)+".>")).Name() {
		if err := js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	last = bustest.PutBack(t, b.Bus, sid)
	r.age()
	if done, err := r.advance(t.Context()); !done || err != nil {
		t.Fatalf("got %v, %v, want that the history which is left needs nothing", done, err)
	}
	if r.stack.Stack != nil || len(r.m.Inflight) > 0 || r.m.State.Seq != last || r.m.State.Turn() != nil {
		t.Errorf("got %d in flight, sequence %d, turn %+v, want those of the history that is left, which ends at %d", len(r.m.Inflight), r.m.State.Seq, r.m.State.Turn(), last)
	}
}
