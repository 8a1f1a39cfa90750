package run

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/hint"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/internal/wake"
)

// run works on one session in one goroutine.
type run struct {
	p       *Pool
	session events.SessionID
	class   bus.Class // whose places it takes
	state   *projector.State
	batch   batch
	stack   stacked
	// suspicious: an earlier run of the session may have killed its worker, and no turn made progress since.
	suspicious bool
	trial      *wake.Trial // the attempt under way; nil where it stored nothing

	// Guarded by the pool's lock.
	wake        *bus.Wake // the run's wake; nil before the first
	transferred *bus.Wake // the wake that another worker was asked to accept
	claimed     attempt
	due         events.Millis // latest time that a server reported as passed, in a wake
	waiting     int           // effects that wait for another session's turn

	logEnd  logEnd
	signals chan struct{} // the loop has to repeat

	results        chan effectResult
	inflight       map[events.EffectID]*effect
	recordRequests chan recordRequest // requests of effects to record events
	// onRecorded notifies the program that ran a call that its result is in the history.
	onRecorded  map[events.EffectID]func()
	ticks       int
	turns       int  // claimed since the run began
	unmarked    bool // whether appends of this run have yet to be marked for projectors
	branchLater bool // a branch failed: retried at the next tick
	endCalls    endCalls
	wokenSeq    events.Seq // sequence up to which tasks were woken, see [session.Worker.WakeCancelsToPassOn]
}

// attempt is the attempt of a turn that a run has claimed; the turn is empty if there is none.
type attempt struct {
	turn   events.TurnID
	number int64
}

func newRun(p *Pool, id events.SessionID, class bus.Class, w *bus.Wake) *run {
	due := events.Millis(0)
	if w != nil {
		due = w.Due
	}
	return &run{
		p: p, session: id, class: class, wake: w, due: due, logEnd: logEnd{known: -1}, signals: make(chan struct{}, 1),
		results: make(chan effectResult, 16), inflight: make(map[events.EffectID]*effect),
		recordRequests: make(chan recordRequest), onRecorded: make(map[events.EffectID]func()), endCalls: newEndCalls(),
	}
}

// signal makes the run repeat its loop.
func (r *run) signal() {
	select {
	case r.signals <- struct{}{}:
	default: // the signal is already set
	}
}

// replaceWakeLocked replaces the run's wake. The run reads the log before it acks. A session of an agent may have a wake of another key:
// the new one covers the session.
func (r *run) replaceWakeLocked(w *bus.Wake) {
	if old := r.wake; old != nil && old.WakeKey != w.WakeKey {
		_ = old.Ack()
	}
	r.wake, r.due = w, max(r.due, w.Due)
	r.logMovedLocked()
}

// logMovedLocked reports that the log may have moved.
func (r *run) logMovedLocked() {
	r.logEnd.arrived()
	r.signal()
}

// now is the latest time that a server reported as passed. The worker's own clock does not decide what is due: it may
// be ahead. If its clock has passed a time that no server reported, the timer that the run stores at its end fires at
// once.
func (r *run) now() events.Millis {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.due
}

// setClaim sets the attempt that the run has claimed; the zero value for none.
func (r *run) setClaim(a attempt) {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	r.claimed = a
}

// isOurs reports whether this run has claimed that attempt of a turn.
func (r *run) isOurs(t *projector.Turn) bool {
	return t != nil && t.Worker == r.p.cfg.ID && r.claimed == attempt{t.ID, t.Attempt}
}

// work claims and runs turns until the session needs nothing. It returns nil if the wake may be acknowledged.
func (r *run) work(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer func() { cancel(cmp.Or(err, errRunEnded)) }() // the effects that still run
	progress := time.NewTicker(bus.AckWait / 3)
	defer progress.Stop()
	if err := r.load(ctx); err != nil {
		return err
	}
	r.classify()
	defer r.closeStack()
	for {
		done, err := r.advance(ctx)
		switch {
		case errors.Is(err, wake.ErrSuperseded):
			r.dropTurn(err) // and continues as if its wake had just arrived
		case err != nil:
			return err
		case !done:
			if err := r.wait(ctx, progress.C); err != nil && !errors.Is(err, wake.ErrSuperseded) {
				return err
			} else if err != nil {
				r.dropTurn(err)
			}
		default:
			if over, err := r.end(ctx); over || err != nil {
				return err
			}
		}
	}
}

// classify sets the class to that of the session, which a timer's wake does not know.
func (r *run) classify() {
	class := hint.TurnKey(r.state).Class
	if class == r.class {
		return
	}
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	before := r.class
	r.class = class
	r.p.admitted[before].signal()
}

// load gets the cached state, which may be behind the log, or folds the log.
func (r *run) load(ctx context.Context) (err error) {
	w := r.currentWake()
	r.suspicious = w != nil && wake.Suspicious(w)
	if r.suspicious {
		switch r.trial, err = r.p.trials.Begin(ctx, r.foldKey(), nil); {
		case err != nil:
			return err
		case r.trial.Exhausted():
			return wake.ErrUnfoldable
		}
	}
	q := r.logEnd.request()
	if r.state = r.p.cfg.Worker.TakeState(ctx, r.session); r.state != nil {
		if !r.suspicious && !follow.IsStale(r.p.cfg.Bus, r.state) && r.foldNextCommit(ctx) {
			return nil
		}
		err = follow.Sync(ctx, r.p.cfg.Bus.Log(), r.p.cfg.Bus, r.state)
	} else {
		r.state, err = follow.Whole(ctx, r.p.cfg.Bus, r.session)
	}
	if err != nil {
		r.state = nil
		return err
	}
	r.logEnd.confirm(q)
	r.endTrial(ctx)
	// A wake of an append replaces the one of an attempt that killed its worker.
	if id, asked := turn.Upcoming(r.state); id != "" && asked < r.state.Seq {
		r.suspicious = true
	}
	return nil
}

// foldNextCommit folds the next commit, which is usually the reason of the wake, unless the cached state needs a worker
// without it. It reports whether the state needs a worker now. The state may still be behind the log: then the first
// append conflicts.
func (r *run) foldNextCommit(ctx context.Context) (needsWorker bool) {
	if turn.NeedsWorker(r.state, r.now()) {
		return true
	}
	entry, err := r.p.cfg.Bus.Log().CommitInFirstStream(ctx, r.session, r.state.Seq+1)
	return err == nil && follow.Receive(r.p.cfg.Bus, r.state, entry) && turn.NeedsWorker(r.state, r.now())
}

// dropTurn drops a turn that another worker has taken over, with its effects: why is the cause of their end.
func (r *run) dropTurn(why error) {
	r.trial.Leave()
	r.trial = nil
	r.discard(r.batch.inputs...)
	r.rollBack()
	r.cancelEffects(why)
	r.closeStack()
	r.setClaim(attempt{})
}

// cancelEffects cancels the effects that run, and drops their results. why is the cause that effects see. nil: the turn ends, and a call in
// another process is cancelled. Else the turn goes on elsewhere, and such a call continues.
func (r *run) cancelEffects(why error) {
	for id, e := range r.inflight {
		e.cancel(why)
		delete(r.inflight, id)
	}
}
