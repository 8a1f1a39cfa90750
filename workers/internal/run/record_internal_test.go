package run

import (
	"context"
	"errors"
	"testing"
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
