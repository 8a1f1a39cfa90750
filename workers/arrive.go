package workers

import (
	"context"
	"errors"

	"github.com/lash-go/lash/session/turn"
)

// arrive steps what an effect came to. Results that came beside it join it,
// so that calls which finish together land in one event.
func (r *run) arrive(ctx context.Context, a arrival) error {
	first := r.land(a)
	results, ok := first.(turn.Results)
	if !ok {
		return r.stepArrival(ctx, first)
	}
	for {
		select {
		case next := <-r.arrivals:
			in := r.land(next)
			if more, ok := in.(turn.Results); ok && more.Iteration == results.Iteration {
				results.Results = append(results.Results, more.Results...)
				results.Pending = append(results.Pending, more.Pending...)
				results.Beside = append(results.Beside, more.Beside...)
				if results.Stopped == nil {
					results.Stopped = more.Stopped
				}
				continue
			}
			if err := r.stepArrival(ctx, sorted(results)); err != nil {
				return err
			}
			return r.stepArrival(ctx, in)
		default:
			return r.stepArrival(ctx, sorted(results))
		}
	}
}

// land takes an effect off the flights. What was given up, or belongs to an
// earlier turn, is dropped. A reply to a prompt that is ahead of the log keeps
// the mark, for the commit that it is gathered into.
func (r *run) land(a arrival) turn.Input {
	if r.flights[a.effect] != a.flight {
		return nil
	}
	delete(r.flights, a.effect)
	r.g.ahead = r.g.ahead || a.flight.ahead
	if t := r.state.Turn(); t == nil || t.ID != a.turn {
		return nil
	}
	return a.in
}

// stepArrival forgets what nobody waits for any more.
func (r *run) stepArrival(ctx context.Context, in turn.Input) error {
	if in == nil {
		return nil
	}
	in = r.withUnsaved(in)
	err := r.step(ctx, in)
	if err != nil {
		r.forsake(in)
		r.settleStack(ctx)
	}
	if errors.Is(err, turn.ErrStale) {
		return nil
	}
	return err
}

// withUnsaved lets what plugins changed land with what made them change it.
func (r *run) withUnsaved(in turn.Input) turn.Input {
	switch in := in.(type) {
	case turn.Reply:
		in.Beside = append(in.Beside, r.unsaved()...)
		return in
	case turn.Results:
		in.Beside = append(in.Beside, r.unsaved()...)
		return in
	case turn.Hooks:
		in.Beside = append(in.Beside, r.unsaved()...)
		return in
	}
	return in
}
