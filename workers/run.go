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
	current  time.Time // when the log was last known to end where the state does

	ending      bool // in favour of a new command that covers what is queued
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
			if done, err = r.park(ctx); done || err != nil {
				return done, err
			}
		case r.w.draining.Load() && len(r.flights) > 0:
			return false, nil // what flies may land
		case r.w.draining.Load() && !begun(t):
			return false, r.handOver(ctx)
		case r.begins(owes) && r.aged():
			if err := r.renew(ctx); errors.Is(err, errUnanswered) {
				return false, nil // begun at the next tick, or later
			} else if err != nil {
				return false, err
			}
		default:
			if err := r.start(ctx); err != nil || len(r.flights) > 0 {
				return false, err
			} // nothing flies: the turn broke instead
		}
	}
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
		if err := r.readMail(ctx); err != nil || !r.moved.Load() {
			return err
		}
		return r.look(ctx)
	case <-progress:
		_ = r.job.Progress()
		r.branchLater = false
		if r.ticks++; r.ticks%5 == 0 || r.moved.Load() { // a poke may have been lost
			return r.look(ctx)
		}
		return nil
	}
}

// catchUp folds what others appended.
func (r *run) catchUp(ctx context.Context) error {
	if len(r.g.events) > 0 {
		return r.flush(ctx) // finds out by itself
	}
	before, began := r.state.Seq, time.Now()
	err := follow.Sync(ctx, r.w.cfg.Bus.Log(), r.state)
	switch {
	case r.state.Seq != before:
		err = errors.Join(err, r.openStack(ctx))
	case err == nil:
		began = time.Now() // however long that took: a slow log must not keep a run from going on
	}
	switch {
	case err == nil:
		r.current = began
	case ctx.Err() == nil && errors.Is(err, events.ErrOutcomeUnknown):
		r.current = time.Time{} // it may have moved
		err = fmt.Errorf("%w: %w", errUnanswered, err)
	}
	return err
}

// errUnanswered is a look at the log that may be repeated: servers that elect a
// leader have no answer, and what flies must not end for that.
var errUnanswered = errors.New("the log does not answer")

// look is catchUp, at once or with the next tick.
func (r *run) look(ctx context.Context) error {
	r.moved.Store(false)
	err := r.catchUp(ctx)
	if errors.Is(err, errUnanswered) {
		r.moved.Store(true)
		return nil
	}
	return err
}
