package workers

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/turn"
)

// errRefused is a command that nobody can read: it becomes a dead letter.
var errRefused = errors.New("command refused")

// run works on one session, from one job, in one goroutine.
type run struct {
	w     *Worker
	job   *bus.Job
	cmd   session.Command
	state *projector.State
	g     gathering
	mail  []*bus.Job  // of the same session, under the worker's lock
	moved atomic.Bool // somebody said that the session moved
	woken chan struct{}

	arrivals chan arrival // what effects came to
	flights  map[events.EffectID]*flight
	ticks    int
	stack    stacked
	asked    chan fact // what effects want recorded on their way
	behind   bool      // the state may lack what the command, which asks for no turn, is about
	turns    int       // claimed since the run began

	branchLater bool // a turn could not branch off just now: not before the next tick
}

func newRun(w *Worker, j *bus.Job) *run {
	return &run{
		w: w, job: j, woken: make(chan struct{}, 1),
		arrivals: make(chan arrival, 16), flights: make(map[events.EffectID]*flight),
		asked: make(chan fact),
	}
}

// wake makes the run look at its mail, and at the log if it was told that it moved.
func (r *run) wake() {
	select {
	case r.woken <- struct{}{}:
	default: // a look is due already
	}
}

// work claims and runs turns until the session owes nothing. nil means that the job may be acked.
func (r *run) work(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends what still flies
	progress := time.NewTicker(bus.AckWait / 3)
	defer progress.Stop()
	if err := r.load(ctx); err != nil {
		return err
	}
	if err := r.openStack(ctx); err != nil {
		return err
	}
	defer r.closeStack()
	for {
		done, err := r.advance(ctx)
		switch {
		case err != nil:
			return err
		case done:
			if err := r.w.host.ChargeChild(ctx, r.state); err != nil {
				return err
			}
			if r.goOn(ctx) {
				return nil
			}
		default:
			if err := r.wait(ctx, progress.C); err != nil {
				return err
			}
		}
	}
}

// goOn takes up the next job of the same session, or ends the run.
func (r *run) goOn(ctx context.Context) (over bool) {
	for {
		mail := r.w.takeMailOrEnd(r)
		if len(mail) == 0 {
			return true
		}
		cmd, err := session.DecodeCommand(mail[0].Body)
		r.w.returnMail(r, mail[1:])
		if err != nil {
			r.w.settle(ctx, mail[0], fmt.Errorf("%w: %w", errRefused, err))
			continue
		}
		r.w.settle(ctx, r.job, nil)
		r.job, r.cmd, r.g.claimed, r.behind = mail[0], cmd, false, !cmd.AsksForTurn()
		return false
	}
}

// readMail puts the turns of jobs that came meanwhile in the session's order.
func (r *run) readMail(ctx context.Context) error {
	mail, err := r.enroll(ctx, r.w.takeMail(r))
	for len(mail) > 0 && err == nil {
		if err = r.queue(ctx, mail[0]); err == nil {
			mail = mail[1:]
		}
	}
	for _, j := range mail {
		_ = j.GiveBack(0)
	}
	return err
}

// queue records a turn behind the running one and acks its job: the run's own
// message covers it. A second delivery of that message is dropped, as the
// first one's acks count for it.
func (r *run) queue(ctx context.Context, j *bus.Job) error {
	if j.ID == r.job.ID {
		return nil
	}
	cmd, err := session.DecodeCommand(j.Body)
	if err != nil {
		r.w.settle(ctx, j, fmt.Errorf("%w: %w", errRefused, err))
		return nil
	}
	switch {
	case cmd.Cover:
		r.w.settle(ctx, j, nil) // the run looks for what is queued at its end
		return nil
	case !cmd.AsksForTurn():
		return r.answerMail(ctx, j, &cmd)
	case cmd.Wake:
		return j.GiveBack(later(j)) // the running turn may take its inputs
	}
	for {
		known, err := r.known(events.TurnID(j.ID))
		if err != nil {
			return err
		}
		if known {
			if t := r.state.Turn(); t != nil && t.Worker != r.w.cfg.ID {
				return j.GiveBack(0) // the message of this run covers nothing any more
			}
			r.w.settle(ctx, j, nil)
			return nil
		}
		if err := r.flush(ctx); err != nil {
			return err
		}
		if err := r.place(ctx, events.TurnID(j.ID), &cmd); err != nil {
			return err
		}
	}
}

// load gets the state: from the cache, possibly behind, or from the log.
func (r *run) load(ctx context.Context) (err error) {
	if r.cmd, err = session.DecodeCommand(r.job.Body); err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	if err := errors.Join(events.CheckToken("session", r.job.Session), events.CheckToken("turn", r.turnID())); err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	if !r.cmd.Wake {
		if err := r.w.tries.begin(ctx, r.job); err != nil {
			return err
		}
	}
	r.state = r.w.cache.take(r.job.Session)
	switch {
	case r.state == nil:
		r.state, err = follow.Whole(ctx, r.w.cfg.Bus, r.job.Session)
	case r.job.Deliveries > 1 || !r.cmd.AsksForTurn() || r.state.Seq < r.cmd.Seen:
		err = follow.Sync(ctx, r.w.cfg.Bus.Log(), r.state)
	} // else, if it is behind, the first append conflicts
	if err != nil || !r.cmd.Wake {
		return err
	}
	if t := r.state.Turn(); t != nil && t.Job != r.turnID() {
		return nil // it waits for that turn's end: no attempt
	}
	return r.w.tries.begin(ctx, r.job)
}

// turnID is the turn that the job asks for.
func (r *run) turnID() events.TurnID { return events.TurnID(r.job.ID) }

// known reports whether a turn is in the state: running, queued or finished.
func (r *run) known(id events.TurnID) (bool, error) {
	if t := r.state.Turn(); t != nil && t.ID == id {
		return true, nil
	}
	for i := range r.state.Queue {
		if r.state.Queue[i].ID == id {
			return true, nil
		}
	}
	record, err := r.state.Record(id)
	return record != nil, err
}

// advance steps until only outside events can help. It reports whether the run
// is over. When ctx ends it starts nothing more: a call that was cancelled with
// it has arrived without a result perhaps, and the state owes it still.
func (r *run) advance(ctx context.Context) (done bool, err error) {
	if r.behind {
		if err := r.catchUp(ctx); err != nil {
			return false, err
		}
		r.behind = false
	}
	for {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if waits := r.branching(); waits != nil {
			if len(r.g.events) > 0 {
				err = r.flush(ctx)
			} else {
				err = r.branchOff(ctx, *waits)
			}
			if err != nil {
				return false, err
			}
			continue
		}
		t := r.state.Turn()
		owes := turn.Owed(r.state)
		switch {
		case !r.cmd.AsksForTurn() && !r.cmd.Cover && !r.g.claimed && t != nil && t.Job != r.turnID():
			if done, err = r.answer(ctx, owes); done || err != nil {
				return done, err
			}
		case t == nil:
			if done, err = r.claimNext(ctx); done || err != nil {
				return done, err
			}
		case t.Worker != r.w.cfg.ID || !r.g.claimed:
			if done, err = r.meet(ctx, t); done || err != nil {
				return done, err
			}
		case owes.Stop:
			if err := r.stop(ctx); err != nil {
				return false, err
			}
		case owes.Parked() && len(r.flights) == 0:
			if len(r.g.events) == 0 {
				return true, r.w.host.ExpireApprovals(ctx, r.state) // whoever answers wakes it
			}
			if err := r.flush(ctx); err != nil {
				return false, err
			}
		case r.w.draining.Load() && len(r.flights) > 0:
			return false, nil // what flies may land
		case r.w.draining.Load() && !begun(t):
			return false, r.handOver(ctx)
		default:
			if err := r.start(ctx); err != nil || len(r.flights) > 0 {
				return false, err
			} // nothing flies: the turn broke instead
		}
	}
}

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
// that is gone. While this worker was quiet another one may have had the
// message, and left the turn to the message of the turn that ran then.
func (r *run) keepJob(ctx context.Context) error {
	if len(r.state.Queue) == 0 {
		return nil
	}
	err := r.w.cfg.Bus.Enqueue(ctx, bus.ClassTurn, r.job.Session, r.job.ID, r.job.Body)
	if errors.Is(err, bus.ErrQueued) {
		return nil
	}
	return err
}

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
		claim := r.claim(ctx, t.Input)
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
	return known && r.state.Turn() != nil, err
}

// stranded reports whether nobody holds the message of the running turn: it is
// ours now, or there is none though the turn is not parked, or it is and was
// cancelled, as by a turn that interrupts it. Delivery counts do not tell: a server that was killed may have forgotten them.
func (r *run) stranded(ctx context.Context, t *projector.Turn) (bool, error) {
	if t.Job == r.turnID() {
		return true, r.lateFor(ctx, t)
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

// lateFor is an [ErrSuperseded] where the job waited here, or was long in
// loading, while another worker got a newer delivery of it and claimed the
// turn, and is there. Where that one has given it back, it comes again. The
// clocks of both are compared: one that is wrong costs a repeated attempt, or a delay.
func (r *run) lateFor(ctx context.Context, t *projector.Turn) error {
	if t.Worker == r.w.cfg.ID || t.ClaimedAt <= events.MillisOf(r.job.Came) || r.w.cfg.Bus.Gone(ctx, t.Worker) {
		return nil
	}
	return fmt.Errorf("turn %s, by %s: %w", t.ID, t.Worker, ErrSuperseded)
}

// enqueueBehind records the request of the job's turn, unless it is known.
func (r *run) enqueueBehind(ctx context.Context) error {
	known, err := r.known(r.turnID())
	if err != nil || known {
		return err
	}
	return r.place(ctx, r.turnID(), &r.cmd)
}

// wait blocks until something happens and acts on it.
func (r *run) wait(ctx context.Context, progress <-chan time.Time) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case a := <-r.arrivals:
		return r.arrive(ctx, a)
	case f := <-r.asked:
		return r.recordFact(ctx, f)
	case <-r.g.timer():
		return r.flush(ctx)
	case <-r.woken:
		if err := r.readMail(ctx); err != nil || !r.moved.Swap(false) {
			return err
		}
		return r.catchUp(ctx)
	case <-progress:
		_ = r.job.Progress()
		r.branchLater = false
		if r.ticks++; r.ticks%5 == 0 {
			return r.catchUp(ctx) // a poke may have been lost
		}
		return nil
	}
}

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

// catchUp folds what others appended.
func (r *run) catchUp(ctx context.Context) error {
	if len(r.g.events) > 0 {
		return r.flush(ctx) // finds out by itself
	}
	before := r.state.Seq
	err := follow.Sync(ctx, r.w.cfg.Bus.Log(), r.state)
	if err != nil || r.state.Seq == before {
		return err
	}
	return r.openStack(ctx)
}
