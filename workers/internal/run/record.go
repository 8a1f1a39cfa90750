package run

import (
	"context"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/work"
)

// recordFor lets an effect record events that must be durable before it continues, and the changed states of plugins. It
// returns when the log has them.
func (r *run) recordFor(ctx context.Context, e *work.Effect, list ...events.Payload) error {
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
	effect *work.Effect
	list   []events.Payload
	done   chan<- error // buffered: one response
}

// handleRecordRequest records the events that an effect requested. The effect receives an error if it was discarded, or if
// another worker took the turn over while the response to the append was under way. In the second case the log has
// the events, but the effect must not continue. The run continues in both cases.
func (r *run) handleRecordRequest(f recordRequest) {
	r.recording = f.done
	if err := r.m.Record(f.effect, f.list); err != nil {
		r.answer(err)
	}
}

// answer answers the effect whose events are recorded, if there is one.
func (r *run) answer(err error) {
	if r.recording != nil {
		r.recording <- err
		r.recording = nil
	}
}
