package workers

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/turn"
)

// facts lets an effect of a turn record what must be durable before it goes
// on. It returns when that has landed.
func (r *run) facts(ctx context.Context, owner events.TurnID, list ...events.Payload) error {
	landed := make(chan error, 1)
	select {
	case r.asked <- fact{owner, list, landed}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-landed:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// fact is what an effect wants recorded.
type fact struct {
	turn   events.TurnID
	list   []events.Payload
	landed chan<- error // one answer; it never blocks
}

// recordFact records what an effect asked for. One whose turn has ended, and
// that ignored its context, is told so; the run goes on. So is one whose turn
// another worker took over while the answer to the append was on its way: what
// it asked for has landed, and it must not go on all the same.
func (r *run) recordFact(ctx context.Context, f fact) error {
	err := r.upheld(f.turn)
	if err != nil {
		f.landed <- err
		return nil
	}
	err = r.take(ctx, turn.Facts{Beside: f.list})
	if err == nil {
		err = r.flush(ctx)
	}
	for err == nil && r.aged() {
		if err = r.renew(ctx); errors.Is(err, errUnanswered) {
			_ = r.job.Progress()
			bus.Sleep(ctx, watchEvery)
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		f.landed <- err
		return err
	}
	f.landed <- r.upheld(f.turn)
	return nil
}

// upheld is a [turn.ErrStale] where a turn has ended, or is another worker's.
func (r *run) upheld(id events.TurnID) error {
	if t := r.state.Turn(); t == nil || t.ID != id || t.Worker != r.w.cfg.ID {
		return fmt.Errorf("turn %s: %w", id, turn.ErrStale)
	}
	return nil
}
