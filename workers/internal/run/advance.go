package run

import (
	"context"
	"errors"
	"time"

	"github.com/lash-go/lash/session/turn"
)

// advance steps until the run has to wait. done: the session needs nothing. When ctx ends it starts nothing more: a
// call that was cancelled with ctx may have completed without a result, and the state still needs it.
func (r *run) advance(ctx context.Context) (done bool, err error) {
	for {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		stop, err := r.advanceOnce(ctx)
		if err != nil || stop != paceContinue {
			return stop == paceRest, err
		}
	}
}

// pace is what a run does next.
type pace int

const (
	paceContinue pace = iota // the state may need more
	paceWait                 // for running effects
	paceRest                 // the state needs nothing
)

// advanceOnce does the first of these that the state needs:
//
//	a turn that this run has not claimed    transfer the wake, or take the turn over
//	turns that ended                        call plugins, in the background
//	a turn to branch, a time that is due    also while another turn runs
//	a turn to claim, or nothing to do
//	a turn of this run                      stop it, hand it over, open its plugins, start its effects
//
// An effect starts last, so that it starts on a state that no earlier step changes.
func (r *run) advanceOnce(ctx context.Context) (pace, error) {
	if r.state.Seq != r.wokenSeq { // the events folded since may cancel tasks without a hint from their host
		r.p.cfg.Worker.WakeCancelsToPassOn(r.state)
		r.wokenSeq = r.state.Seq
	}
	t := r.state.Turn()
	needs := turn.Next(r.state)
	parked := needs.Parked()
	if t != nil && !parked && !r.isOurs(t) {
		return r.transferOrTakeOver(ctx, t)
	}
	if err := r.startEndCalls(ctx); err != nil {
		return paceContinue, err
	}
	if q := r.branching(); q != nil {
		return paceContinue, r.flushOrDo(ctx, func() error { return r.branchOff(ctx, *q) })
	}
	now := r.now()
	if list := turn.DueEvents(r.state, now); len(list) > 0 {
		return paceContinue, r.flushOrDo(ctx, func() error { return r.record(ctx, list) })
	}
	switch {
	case t == nil && turn.Claimable(r.state):
		if len(r.endCalls.running) > 0 && (r.suspicious || r.reachedFairShare() || r.p.draining.Load()) {
			return paceWait, nil // the calls about ended turns would be cut off, or are suspects
		}
		return paceContinue, r.claimNext(ctx)
	case t == nil, parked && len(r.inflight) == 0:
		return r.rest(ctx)
	case needs.Stop:
		return paceContinue, r.stop(ctx)
	case r.p.draining.Load() && (len(r.inflight) > 0 || len(r.endCalls.running) > 0):
		return paceWait, nil // running effects and turn-end calls may complete
	case r.p.draining.Load() && !hasStartedCall(t):
		return paceContinue, r.release(ctx, t)
	case r.stack.Stack == nil: // closed when the session seemed to rest, or after a change that failed
		err := r.reopen(ctx, needs)
		if errors.Is(err, errElsewhere) && len(r.inflight) > 0 {
			return paceWait, nil // running effects may complete; retried at the next tick
		}
		return paceContinue, err
	case turn.NeedsStartCalls(r.state):
		return paceContinue, r.step(ctx, turn.StartCalls{})
	case len(needs.Calls) > 0 && r.hasNewEffect(needs) && len(r.batch.events) > 0:
		return paceContinue, r.flush(ctx) // the time that the call gets is one of the log; hooks get that of the batch, which records them, too
	case r.hasNewEffect(needs) && r.logEnd.isAged(time.Now()):
		err := r.renewState(ctx)
		if errors.Is(err, errUnanswered) {
			return paceWait, nil // started at a later tick
		}
		return paceContinue, err
	}
	if err := r.start(ctx); err != nil || len(r.inflight) > 0 {
		return paceWait, err
	}
	return paceContinue, nil // no effect runs: the step ended the turn
}

// flushOrDo appends the batch; where the batch is empty, it calls do. After an append the loop of advance comes back.
func (r *run) flushOrDo(ctx context.Context, do func() error) error {
	if len(r.batch.events) > 0 {
		return r.flush(ctx)
	}
	return do()
}

// rest makes sure that the session needs nothing at the end of the log, as of the newest wake.
func (r *run) rest(ctx context.Context) (pace, error) {
	if len(r.batch.events) > 0 {
		return paceContinue, r.flush(ctx)
	}
	if list := r.toldEvents(); len(list) > 0 {
		return paceContinue, r.record(ctx, list)
	}
	switch {
	case len(r.endCalls.running) > 0:
		return paceWait, nil
	case len(r.state.Unnotified) > 0 && r.p.draining.Load():
		return paceContinue, r.endForStop(ctx)
	case len(r.state.Unnotified) > 0:
		return paceWait, nil // another worker calls plugins; if it dies, this run does
	}
	if !r.logEnd.hasNews() {
		return paceRest, nil
	}
	err := r.catchUp(ctx)
	if errors.Is(err, errUnanswered) {
		return paceWait, nil // retried at the next tick
	}
	return paceContinue, err
}

// end ends a run whose session needs nothing, unless a wake arrived meanwhile.
func (r *run) end(ctx context.Context) (over bool, err error) {
	if err := r.p.cfg.Worker.ChargeChild(ctx, r.state); err != nil {
		return false, err
	}
	if due := turn.Due(r.state); due != 0 {
		_ = r.p.cfg.Bus.SetTimer(r.session, due)
	}
	r.closeStack() // the session's next run opens it again
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if r.logEnd.hasNews() {
		return false, nil
	}
	r.p.endLocked(r)
	return true, nil
}
