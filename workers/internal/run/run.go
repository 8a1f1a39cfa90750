package run

import (
	"cmp"
	"context"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/hint"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/session/work"
	"github.com/lash-go/lash/workers/internal/call"
	"github.com/lash-go/lash/workers/internal/wake"
)

// run works on one session in one goroutine.
type run struct {
	p       *Pool
	session events.SessionID
	class   bus.Class // whose places it takes
	m       *work.Machine
	stack   stacked
	// suspicious: an earlier run of the session may have killed its worker, and no turn made progress since.
	suspicious bool
	trial      *wake.Trial // the attempt under way; nil where it stored nothing

	// Guarded by the pool's lock.
	wake        *bus.Wake // the run's wake; nil before the first
	transferred *bus.Wake // the wake that another worker was asked to accept
	claimed     work.Attempt
	arrivals    int64         // wakes and notifications so far
	due         events.Millis // latest time that a server reported as passed, in a wake
	waiting     int           // effects that wait for another session's turn

	signals chan struct{} // the loop has to repeat

	results        chan effectResult
	recordRequests chan recordRequest // requests of effects to record events
	recording      chan<- error       // answer to the effect whose events are recorded; nil: none
	// onRecorded notifies the program that ran a call that its result is in the history.
	onRecorded map[events.EffectID]func()
	abandoned  []func()         // notify programs that their calls are abandoned, once the history says so
	states     []events.Payload // of plugins, which changed as calls of the batch were given to instances
	until      time.Time        // latest end of the next wait; zero: none
	ticks      int
	unmarked   bool // whether appends of this run have yet to be marked for projectors
	conflicted bool // the run goes first
	endCalls   endCalls
	wokenSeq   events.Seq // sequence up to which tasks were woken, see [session.Worker.WakeCancelsToPassOn]
}

// fairTurns is the number of turns that a run does in a row while its pool is full.
const fairTurns = 8

// trusted is less than the time after which other workers count a worker as gone.
const trusted = (wake.GoneTimes - 1) * wake.WatchEvery / 2

func newRun(p *Pool, id events.SessionID, class bus.Class, w *bus.Wake) *run {
	r := &run{
		p: p, session: id, class: class, wake: w, signals: make(chan struct{}, 1), results: make(chan effectResult, 16),
		recordRequests: make(chan recordRequest), onRecorded: make(map[events.EffectID]func()), endCalls: newEndCalls(),
	}
	if w != nil {
		r.due = w.Due
	}
	r.m = work.New(work.Config{
		Worker: p.cfg.ID, Trusted: trusted, Linger: p.cfg.Linger, FairTurns: fairTurns, Extra: r.unsaved, Full: r.isFull,
		Broken: func(err error) events.Issue { return call.IssueOf("runtime", "commit_refused", err) },
	})
	return r
}

// isFull reports whether the pool has no place for another run of the class.
func (r *run) isFull() bool {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.p.capacityLocked(r.class) <= 0
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
	r.arrivals++
	r.signal()
}

// facts are what the run knows now. What is due is decided by the times that servers reported. The worker's own clock does not decide: it
// may be ahead. If it has passed a time that no server reported, the timer that the run stores at its end fires at once.
func (r *run) facts() work.Facts {
	f := work.Facts{
		Now: time.Now(), Millis: r.p.cfg.Bus.Millis(), Calling: len(r.endCalls.running) > 0, Open: r.stack.Stack != nil,
		Draining: r.p.draining.Load(), Suspected: r.suspicious,
	}
	if r.m.State != nil {
		f.Told = r.toldEvents()
	}
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	f.Due, f.Arrivals = r.due, r.arrivals
	return f
}

// ready is the next step. Other workers' requests are about the claim that the machine has now.
func (r *run) ready(ctx context.Context) work.Ready {
	rd := r.m.Ready(r.facts())
	if list := r.m.Discarded(); len(list) > 0 {
		r.discard(ctx, list)
	}
	if now := r.m.Claimed(); now != r.claimed { // written by this goroutine alone
		r.p.mu.Lock()
		defer r.p.mu.Unlock()
		r.claimed = now
	}
	return rd
}

// work claims and runs turns until the session needs nothing. It returns nil if the wake may be acknowledged.
func (r *run) work(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer func() { // the effects that still run
		cancel(cmp.Or(err, errRunEnded))
		r.answer(cmp.Or(err, errRunEnded))
	}()
	progress := time.NewTicker(bus.AckWait / 3)
	defer progress.Stop()
	if err := r.load(ctx); err != nil {
		return err
	}
	r.classify()
	defer func() {
		r.m.RollBack()
		r.rolledBack(ctx)
		r.closeStack()
	}()
	for {
		done, err := r.advance(ctx)
		switch {
		case err != nil:
			return err
		case !done:
			err = r.wait(ctx, progress.C)
		default:
			done, err = r.end(ctx)
		}
		if done || err != nil {
			return err
		}
	}
}

// classify sets the class to that of the session, which a timer's wake does not know.
func (r *run) classify() {
	class := hint.TurnKey(r.m.State).Class
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
	f := r.facts()
	if r.m.State = r.p.cfg.Worker.TakeState(ctx, r.session); r.m.State != nil {
		if !r.suspicious && !follow.IsStale(r.p.cfg.Bus, r.m.State) && r.foldNextCommit(ctx, f.Due) {
			return nil
		}
		err = follow.Sync(ctx, r.p.cfg.Bus.Log(), r.p.cfg.Bus, r.m.State)
	} else {
		r.m.State, err = follow.Whole(ctx, r.p.cfg.Bus, r.session)
	}
	if err != nil {
		r.m.State = nil
		return err
	}
	r.m.Load(f)
	r.endTrial(ctx)
	// A wake of an append replaces the one of an attempt that killed its worker.
	if id, asked := turn.Upcoming(r.m.State); id != "" && asked < r.m.State.Seq {
		r.suspicious = true
	}
	return nil
}

// foldNextCommit folds the next commit, which is usually the reason of the wake, unless the cached state needs a worker
// without it. It reports whether the state needs a worker now. The state may still be behind the log: then the first
// append conflicts.
func (r *run) foldNextCommit(ctx context.Context, due events.Millis) (needsWorker bool) {
	if turn.NeedsWorker(r.m.State, due) {
		return true
	}
	entry, err := r.p.cfg.Bus.Log().CommitInFirstStream(ctx, r.session, r.m.State.Seq+1)
	return err == nil && follow.Receive(r.p.cfg.Bus, r.m.State, entry) && turn.NeedsWorker(r.m.State, due)
}

// dropTurn drops a turn that another worker has taken over, with its effects: why is the cause of their end.
func (r *run) dropTurn(ctx context.Context, why error) {
	r.trial.Leave()
	r.trial, r.wokenSeq = nil, 0 // the history may be another one
	r.m.Drop(why)
	r.answer(why)
	r.rolledBack(ctx)
	r.closeStack()
}
