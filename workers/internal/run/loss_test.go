package run

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/workers/internal/wake"
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
	if err := r.catchUp(t.Context()); !errors.Is(err, wake.ErrSuperseded) {
		t.Fatalf("got %v, want %v", err, wake.ErrSuperseded)
	}
	r.dropTurn(wake.ErrSuperseded)
	if r.stack.Stack != nil || len(r.inflight) > 0 || r.state.Seq != last || r.state.Turn() != nil {
		t.Errorf("got %d in flight, sequence %d, turn %+v, want those of the history that is left, which ends at %d", len(r.inflight), r.state.Seq, r.state.Turn(), last)
	}
	if err := r.catchUp(t.Context()); err != nil {
		t.Errorf("got %v, want no error once the state is of the new history", err)
	}
}
