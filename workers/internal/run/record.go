package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/internal/wake"
)

// recordFor lets an effect record what must be durable before it goes on. It
// returns when the log has it.
func (r *run) recordFor(ctx context.Context, e *effect, list ...events.Payload) error {
	recorded := make(chan error, 1)
	select {
	case r.facts <- fact{e, list, recorded}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-recorded:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// fact is what an effect wants recorded.
type fact struct {
	effect   *effect
	list     []events.Payload
	recorded chan<- error // one answer; it never blocks
}

// recordFact records what an effect asked for. One that was given up, and
// ignored its context, gets an error; the run goes on. So does one whose
// turn another worker took over while the answer to the append was on its way:
// the log has what it asked for, and it must not go on all the same.
func (r *run) recordFact(ctx context.Context, f fact) error {
	err := r.upheld(f.effect)
	if err != nil {
		f.recorded <- err
		return nil
	}
	if _, err = r.decide(ctx, turn.Facts{Extra: f.list}); err == nil {
		err = r.flush(ctx)
	}
	for err == nil && r.aged() {
		if err = r.renew(ctx); errors.Is(err, errUnanswered) {
			r.keep()
			bus.Sleep(ctx, wake.WatchEvery)
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		f.recorded <- err
		return err
	}
	f.recorded <- r.upheld(f.effect)
	return nil
}

// upheld is a [turn.ErrStale] where an effect was given up, which the turn may
// have started once more since, or where its turn has ended, or is another worker's.
func (r *run) upheld(e *effect) error {
	if t := r.state.Turn(); r.inflight[e.id] != e || t == nil || t.ID != e.turn || !r.ours(t) {
		return fmt.Errorf("effect %s: %w", e.id, turn.ErrStale)
	}
	return nil
}
