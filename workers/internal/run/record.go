package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/internal/wake"
)

// recordFor lets an effect record events that must be durable before it continues, and the changed states of plugins. It
// returns when the log has them.
func (r *run) recordFor(ctx context.Context, e *effect, list ...events.Payload) error {
	done := make(chan error, 1)
	select {
	case r.recordRequests <- recordRequest{e, list, done}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return <-done // whatever becomes of ctx: the log may have the events by then
}

// recordRequest is a request of an effect to record events.
type recordRequest struct {
	effect *effect
	list   []events.Payload
	done   chan<- error // buffered: one response
}

// handleRecordRequest records the events that an effect requested. The effect receives an error if it was discarded, or if
// another worker took the turn over while the response to the append was under way. In the second case the log has
// the events, but the effect must not continue. The run continues in both cases.
func (r *run) handleRecordRequest(ctx context.Context, f recordRequest) error {
	answer := errRunEnded // of a panic
	defer func() { f.done <- answer }()
	if err := r.checkEffect(f.effect); err != nil {
		answer = err
		return nil
	}
	_, err := r.decide(ctx, turn.Facts{Extra: append(f.list, r.unsaved()...)})
	if err == nil {
		err = r.flush(ctx)
	}
	for err == nil && r.logEnd.isAged(time.Now()) {
		if err = r.renewState(ctx); errors.Is(err, errUnanswered) {
			r.reportProgress()
			delay.Sleep(ctx, wake.WatchEvery)
			err = context.Cause(ctx)
		}
	}
	if answer = err; err == nil {
		answer = r.checkEffect(f.effect)
	}
	return err
}

// checkEffect returns [turn.ErrStale] if the effect was discarded (the turn may have started it again), or if its
// turn has ended or belongs to another worker.
func (r *run) checkEffect(e *effect) error {
	if t := r.state.Turn(); r.inflight[e.id] != e || t == nil || t.ID != e.turn || !r.isOurs(t) {
		return fmt.Errorf("effect %s: %w", e.id, turn.ErrStale)
	}
	return nil
}
