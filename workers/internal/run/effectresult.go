package run

import (
	"context"
	"errors"

	"github.com/lash-go/lash/session/turn"
)

// handleResult steps the result of an effect. Results that are available at the same time join it: they are recorded in
// one event.
func (r *run) handleResult(ctx context.Context, c effectResult) error {
	first := r.removeInflight(c)
	results, ok := first.(turn.Results)
	if !ok {
		return r.stepResult(ctx, first)
	}
	for {
		select {
		case next := <-r.results:
			in := r.removeInflight(next)
			if more, ok := in.(turn.Results); ok && more.Iteration == results.Iteration {
				results.Results = append(results.Results, more.Results...)
				results.Pending = append(results.Pending, more.Pending...)
				results.Extra = append(results.Extra, more.Extra...)
				if results.Stopped == nil {
					results.Stopped = more.Stopped
				}
				continue
			}
			if err := r.stepResult(ctx, sorted(results)); err != nil {
				return err
			}
			return r.stepResult(ctx, in)
		default:
			return r.stepResult(ctx, sorted(results))
		}
	}
}

// removeInflight removes an effect from the in-flight effects and returns its input. It returns nil for an effect
// that was discarded, or of an earlier turn. A reply to a prompt ahead of the log marks the batch that it is added
// to.
func (r *run) removeInflight(c effectResult) turn.Input {
	if r.inflight[c.effect.id] != c.effect {
		return nil
	}
	delete(r.inflight, c.effect.id)
	r.batch.ahead = r.batch.ahead || c.effect.ahead
	if t := r.state.Turn(); t == nil || t.ID != c.effect.turn {
		return nil
	}
	return c.in
}

// stepResult steps an input. It drops an input that the state does not need any more.
func (r *run) stepResult(ctx context.Context, in turn.Input) error {
	if in == nil {
		return nil
	}
	in = in.WithExtra(r.unsaved) // one commit has the input and the plugin states that changed
	err := r.step(ctx, in)
	if err != nil {
		r.discard(in)
		r.restoreStack(ctx)
	}
	if errors.Is(err, turn.ErrStale) {
		return nil
	}
	return err
}
