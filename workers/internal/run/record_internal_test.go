package run

import (
	"context"
	"errors"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// TestRecordsAreAwaited ends the context of an effect while the run records for it: the effect knows what the log has.
func TestRecordsAreAwaited(t *testing.T) {
	t.Parallel()
	recorded := errors.New("recorded")
	for range 100 {
		r := &run{recordRequests: make(chan recordRequest)}
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 1)
		go func() { got <- r.recordFor(ctx, nil) }() // ends with the answer
		f := <-r.recordRequests
		cancel()
		f.done <- recorded
		if err := <-got; !errors.Is(err, recorded) {
			t.Fatalf("got %v, want what became of the events", err)
		}
	}
}

// TestRecordsAreAnswered: an effect has an answer also where the run panics.
func TestRecordsAreAnswered(t *testing.T) {
	t.Parallel()
	e := &effect{id: "e1", turn: "t1"}
	for what, r := range map[string]*run{"without a state": {inflight: map[events.EffectID]*effect{"e1": e}}, "of no turn": {state: projector.New("s")}} {
		done := make(chan error, 1)
		func() {
			defer func() { _ = recover() }()
			_ = r.handleRecordRequest(t.Context(), recordRequest{effect: e, done: done})
		}()
		select {
		case err := <-done:
			if err == nil {
				t.Errorf("%s: got no error", what)
			}
		default:
			t.Errorf("%s: the effect has no answer", what)
		}
	}
}
