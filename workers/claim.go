package workers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/turn"
)

// claimNext starts the next turn, the job's own or a queued one.
func (r *run) claimNext(ctx context.Context) (done bool, err error) {
	known, err := r.known(r.turnID())
	if err == nil && !known && r.cmd.Wake {
		known, err = r.needless(ctx)
	}
	if err != nil {
		return false, err
	}
	if r.state.Status == projector.StatusClosed || (known && len(r.state.Queue) == 0) {
		return true, r.flush(ctx)
	}
	if !r.cmd.AsksForTurn() && len(r.state.Queue) == 0 {
		return true, r.flush(ctx) // what it answers has ended
	}
	switch {
	case r.w.draining.Load():
		return false, r.handOver(ctx)
	case (known || !r.cmd.AsksForTurn()) && r.overdue(): // what covers the queue covers no turn that is not in it
		return false, r.yield(ctx)
	}
	input := r.cmd.Input
	if len(r.state.Queue) > 0 {
		input = r.state.Queue[0].Input
	}
	if err := r.openStack(ctx); err != nil {
		return false, err
	}
	claim := r.claim(ctx, input)
	if !known && r.cmd.AsksForTurn() {
		claim.Turn, claim.Input = r.turnID(), r.cmd.Input
	}
	if claim.Problem, err = r.checkInput(ctx, input); err != nil {
		return false, err
	}
	if claim.Turn != "" && len(r.state.Queue) > 0 {
		// Turns wait before the job's own: it joins them in the order of the log.
		return false, r.place(ctx, r.turnID(), &r.cmd)
	}
	if err := r.keepJob(ctx); err != nil {
		return false, err
	}
	r.g.claimed = true
	r.turns++
	claim.Beside = r.unsaved()
	return false, r.step(ctx, claim)
}

// keepJob sees to it that a turn which waited is not claimed under a message
// that is gone, or may be soon. While this worker was quiet another one may have
// had the message, and left the turn to the message of the turn that ran then.
// Whoever gets the new one claims the turn: it is in nobody's hands yet.
func (r *run) keepJob(ctx context.Context) error {
	if len(r.state.Queue) == 0 {
		return nil
	}
	if r.mayGo() {
		return r.coverAnew(ctx)
	}
	err := r.w.cfg.Bus.Enqueue(ctx, bus.ClassTurn, r.job.Session, r.job.ID, r.job.Body)
	switch {
	case errors.Is(err, events.ErrOutcomeUnknown): // it may be there for a lost try of this run
		return err
	case errors.Is(err, bus.ErrQueued):
		return nil
	case err != nil:
		return err
	}
	return errCovered
}

// mayGo reports whether another worker's ack of the job's message may be on its
// way: who had it before was quiet, and may have found that it covers nothing.
// The queue takes that ack whenever it comes. A worker that failed acks nothing.
// A server that was killed may have forgotten a delivery: that is left to the sweep.
func (r *run) mayGo() bool { return r.job.Deliveries > 1 && r.job.Tries.Error == "" }

// meet is what a worker does about a turn that it does not hold: take it over
// when the queue says that nobody holds it, else put its own behind it. A policy
// of its own comes before either.
func (r *run) meet(ctx context.Context, t *projector.Turn) (done bool, err error) {
	if r.g.claimed {
		return false, fmt.Errorf("turn %s: %w", t.ID, ErrSuperseded)
	}
	if r.cmd.Busy != events.BusyEnqueue {
		if known, err := r.known(r.turnID()); err != nil || !known {
			return false, errors.Join(err, r.enqueueBehind(ctx))
		}
	}
	alone, err := r.stranded(ctx, t)
	switch {
	case err != nil:
		return false, err
	case alone && r.w.draining.Load():
		return false, r.handOver(ctx)
	case alone:
		if err := r.openStack(ctx); err != nil {
			return false, err
		}
		claim := r.claim(ctx, t.Input) // first: a command that nobody had has no attempts, and this may kill
		if t.Job != r.turnID() && r.mayGo() {
			return false, r.leaveStranded(ctx)
		}
		claim.Beside = r.unsaved()
		r.g.claimed = true
		return false, r.step(ctx, claim)
	case r.cmd.Wake:
		return false, errLater
	case r.cmd.Cover:
		return true, nil // the running turn's message covers what is queued
	}
	if err := r.enqueueBehind(ctx); err != nil {
		return false, err
	}
	rest, err := r.enroll(ctx, r.w.takeMail(r))
	r.w.returnMail(r, rest)
	if err != nil {
		return false, err
	}
	known, err := r.known(r.turnID())
	return known && r.state.Turn() != nil && !r.underWay(r.job), err
}

// stranded reports whether nobody holds the message of the running turn: it is
// ours now, or there is none though the turn is not parked, or it is and was
// cancelled, as by a turn that interrupts it. Delivery counts do not tell: a server that was killed may have forgotten them.
func (r *run) stranded(ctx context.Context, t *projector.Turn) (bool, error) {
	if t.Job == r.turnID() {
		if r.late(ctx, r.job, t) {
			return true, fmt.Errorf("turn %s, by %s: %w", t.ID, t.Worker, ErrSuperseded)
		}
		return true, nil
	}
	if owes := turn.Owed(r.state); owes.Parked() {
		return owes.Stop, nil
	}
	_, err := r.w.cfg.Bus.Queued(ctx, bus.ClassTurn, r.job.Session, string(t.Job))
	if errors.Is(err, bus.ErrNotFound) {
		return true, nil // where it has just ended, the claim conflicts
	}
	return false, err
}

// leaveStranded leaves the running turn to a command that nobody had before. The
// turn that the run's own message asks for is recorded before that ends.
func (r *run) leaveStranded(ctx context.Context) error {
	known, err := r.known(r.turnID())
	switch {
	case err != nil:
		return err
	case !known && r.cmd.AsksForTurn() && !r.cmd.Wake:
		return r.enqueueBehind(ctx)
	}
	return r.coverAnew(ctx)
}

// late reports whether a job waited here, or was long in loading, while another
// worker got a newer delivery of it and claimed the turn, and is there. Where
// that one has given it back, it comes again. The clocks of both are compared,
// unless the other is seen to be ahead: one that is wrong costs a repeated
// attempt, or the wait for one more delivery.
func (r *run) late(ctx context.Context, j *bus.Job, t *projector.Turn) bool {
	since := t.ClaimedAt > events.MillisOf(j.Came) && t.ClaimedAt <= events.MillisOf(time.Now())
	return t.Worker != r.w.cfg.ID && since && !r.w.cfg.Bus.Gone(ctx, t.Worker)
}

// park leaves a turn that waits for an answer; whoever answers wakes it. The
// message is gone then. Where the run took the turn over under the message of
// another one, that one is put behind it before: else nothing would know of it.
func (r *run) park(ctx context.Context) (done bool, err error) {
	if len(r.g.events) > 0 {
		return false, r.flush(ctx)
	}
	known, err := r.known(r.turnID())
	switch {
	case err != nil:
		return false, err
	case !known && r.cmd.Wake:
		_, err = r.w.host.Wake(ctx, r.job.Session, ulid.Make().String())
	case !known && r.cmd.AsksForTurn():
		return false, r.enqueueBehind(ctx)
	}
	if err != nil {
		return false, err
	}
	return true, r.w.host.ExpireApprovals(ctx, r.state)
}

// enqueueBehind records the request of the job's turn, unless it is known.
func (r *run) enqueueBehind(ctx context.Context) error {
	known, err := r.known(r.turnID())
	if err != nil || known {
		return err
	}
	return r.place(ctx, r.turnID(), &r.cmd)
}
