package run

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
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/internal/wake"
)

// run works on one session in one goroutine.
type run struct {
	p       *Pool
	session events.SessionID
	state   *projector.State
	batch   batch
	trial   *wake.Trial
	stack   stacked

	// Guarded by the pool's lock.
	wake    *bus.Wake // the run's wake; nil before the first
	asked   *bus.Wake // the wake that another worker was asked to accept
	came    int       // wakes and notifications so far
	turn    events.TurnID
	attempt int64         // of the claimed turn; turn is empty if there is none
	due     events.Millis // latest time that a server reported as passed, in a wake
	waiting int           // effects that wait for another session's turn

	moved    atomic.Bool // the log may have events that the run has not read
	notified chan struct{}
	seen     int // value of came when the end of the log was last known

	completions chan completion
	inflight    map[events.EffectID]*effect
	facts       chan fact // requests of effects to record events
	ticks       int
	turns       int       // claimed since the run began
	current     time.Time // when the state was last known to be the end of the log
	unmarked    bool      // it appended, and has not notified projectors yet
	branchLater bool      // a branch failed: retried at the next tick
	telling     telling
	passed      events.Seq // sequence up to which tasks were woken, see [session.Host.WakePassing]
}

func newRun(p *Pool, id events.SessionID, w *bus.Wake) *run {
	due := events.Millis(0)
	if w != nil {
		due = w.Due
	}
	return &run{
		p: p, session: id, wake: w, due: due, came: 1, notified: make(chan struct{}, 1),
		completions: make(chan completion, 16), inflight: make(map[events.EffectID]*effect), facts: make(chan fact), telling: newTelling(),
	}
}

// notify makes the run repeat its loop.
func (r *run) notify() {
	select {
	case r.notified <- struct{}{}:
	default: // it is going to
	}
}

// holdLocked replaces the run's wake. The run reads the log before it acks.
func (r *run) holdLocked(w *bus.Wake) {
	r.wake, r.due = w, max(r.due, w.Due)
	r.behindLocked()
}

// behindLocked reports that the log may have moved.
func (r *run) behindLocked() {
	r.came++
	r.moved.Store(true)
	r.notify()
}

// arrived counts the wakes and notifications so far. A read or an append that begins after the count includes the
// events that these are
// about.
func (r *run) arrived() int {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.came
}

// now is the latest time that a server reported as passed. The worker's own clock does not decide what is due: it may
// be ahead. If its
// clock has passed a time that no server reported, the timer that the run stores at its end fires at once.
func (r *run) now() events.Millis {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.due
}

// holds sets the turn that the run has claimed; an empty id for none.
func (r *run) holds(id events.TurnID, attempt int64) {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	r.turn, r.attempt = id, attempt
}

// ours reports whether this run has claimed that attempt of a turn.
func (r *run) ours(t *projector.Turn) bool {
	return t != nil && t.Worker == r.p.cfg.ID && t.ID == r.turn && t.Attempt == r.attempt
}

// work claims and runs turns until the session owes nothing. It returns nil if the wake may be acknowledged.
func (r *run) work(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // cancels the effects that still run
	progress := time.NewTicker(bus.AckWait / 3)
	defer progress.Stop()
	if err := r.load(ctx); err != nil {
		return err
	}
	defer r.closeStack()
	for {
		done, err := r.advance(ctx)
		switch {
		case errors.Is(err, wake.ErrSuperseded):
			r.forget() // and continues as if its wake had just arrived
		case err != nil:
			return err
		case !done:
			if err := r.wait(ctx, progress.C); err != nil && !errors.Is(err, wake.ErrSuperseded) {
				return err
			} else if err != nil {
				r.forget()
			}
		default:
			if over, err := r.end(ctx); over || err != nil {
				return err
			}
		}
	}
}

// load gets the cached state, which may be behind the log, or folds the log.
func (r *run) load(ctx context.Context) (err error) {
	w := r.held()
	suspicious := w != nil && (w.Repair || w.Deliveries > 1)
	if suspicious {
		if r.trial, err = r.p.trials.Begin(ctx, w); err != nil {
			return err
		}
	}
	r.seen = -1
	began, count := time.Now(), r.arrived()
	if r.state = r.p.cfg.Host.Take(ctx, r.session); r.state != nil {
		if !suspicious && r.owes(ctx) {
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
	r.current, r.seen = began, count
	return r.trial.Fold(ctx)
}

// owes reports whether the cached state owes work, by itself or after the next commit, which is usually the reason of
// the wake. The state may
// still be behind the log: then the first append conflicts.
func (r *run) owes(ctx context.Context) bool {
	if turn.Owing(r.state, r.now()) {
		return true
	}
	entry, err := r.p.cfg.Bus.Log().Next(ctx, r.session, r.state.Seq+1)
	return err == nil && r.state.Apply(entry) == nil && turn.Owing(r.state, r.now())
}

// progress is the sequence of the state, 0 without a state, and whether the running turn recorded anything since its
// last start.
func (r *run) progress() (events.Seq, bool) {
	if r.state == nil {
		return 0, false
	}
	t := r.state.Turn()
	return r.state.Seq, t != nil && t.Starts == 0
}

// forget drops a turn that another worker has taken over: it cancels the effects and drops their results.
func (r *run) forget() {
	r.discard(r.batch.inputs...)
	r.rollBack()
	for id, e := range r.inflight {
		e.cancel()
		delete(r.inflight, id)
	}
	r.closeStack()
	r.holds("", 0)
}

// advance steps until the run has to wait. done: the session owes nothing. When ctx ends it starts nothing more: a
// call that was
// cancelled with ctx may have completed without a result, and the state still owes it.
func (r *run) advance(ctx context.Context) (done bool, err error) {
	for {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		stop, err := r.advanceOnce(ctx)
		if err != nil || stop != goOn {
			return stop == atRest, err
		}
	}
}

// pace is what a run does next.
type pace int

const (
	goOn   pace = iota // the state may owe more
	waits              // for running effects
	atRest             // the state owes nothing
)

func (r *run) advanceOnce(ctx context.Context) (pace, error) {
	if r.state.Seq != r.passed { // the events folded since may cancel tasks without a hint from their host
		r.p.cfg.Host.WakePassing(r.state)
		r.passed = r.state.Seq
	}
	t := r.state.Turn()
	owes := turn.Owed(r.state)
	parked := owes.Parked() && !owes.Stop
	if t != nil && !parked && !r.ours(t) {
		return goOn, r.meet(ctx, t)
	}
	if err := r.tell(ctx); err != nil {
		return goOn, err
	}
	if q := r.branching(); q != nil {
		return goOn, r.alone(ctx, func() error { return r.branchOff(ctx, *q) })
	}
	now := r.now()
	if list := turn.Ring(r.state, now); len(list) > 0 {
		return goOn, r.alone(ctx, func() error { return r.record(ctx, list) })
	}
	switch {
	case t == nil && turn.Claimable(r.state):
		if len(r.telling.now) > 0 && (r.overdue() || r.p.draining.Load()) {
			return waits, nil // the notifications to plugins would be cut off
		}
		return goOn, r.claimNext(ctx)
	case t == nil, parked && len(r.inflight) == 0:
		return r.rest(ctx)
	case owes.Stop:
		return goOn, r.stop(ctx)
	case r.p.draining.Load() && len(r.inflight) > 0:
		return waits, nil // running effects may complete
	case r.p.draining.Load() && !begun(t):
		return goOn, r.release(ctx, t)
	case r.stack.Session == nil: // closed when the session seemed to rest, or after a change that failed
		err := r.reopen(ctx, owes)
		if errors.Is(err, errElsewhere) && len(r.inflight) > 0 {
			return waits, nil // running effects may complete; retried at the next tick
		}
		return goOn, err
	case turn.Unbegun(r.state):
		return goOn, r.step(ctx, turn.Begin{})
	case r.starts(owes) && r.aged():
		if err := r.renew(ctx); errors.Is(err, errUnanswered) {
			return waits, nil // started at a later tick
		} else if err != nil {
			return goOn, err
		}
		return goOn, nil
	}
	if err := r.start(ctx); err != nil || len(r.inflight) > 0 {
		return waits, err
	}
	return goOn, nil // no effect runs: the step ended the turn
}

// alone calls do if the batch is empty, else it appends the batch first.
func (r *run) alone(ctx context.Context, do func() error) error {
	if len(r.batch.events) > 0 {
		return r.flush(ctx)
	}
	return do()
}

// rest makes sure that the session owes nothing at the end of the log, as of the newest wake.
func (r *run) rest(ctx context.Context) (pace, error) {
	if len(r.batch.events) > 0 {
		return goOn, r.flush(ctx)
	}
	if list := r.told(); len(list) > 0 {
		return goOn, r.record(ctx, list)
	}
	if len(r.telling.now) > 0 { // changed by this goroutine alone
		return waits, nil
	}
	if r.seen == r.arrived() {
		return atRest, nil
	}
	err := r.catchUp(ctx)
	if errors.Is(err, errUnanswered) {
		return waits, nil // retried at the next tick
	}
	return goOn, err
}

// end ends a run whose session owes nothing, unless a wake arrived meanwhile.
func (r *run) end(ctx context.Context) (over bool, err error) {
	if err := r.p.cfg.Host.ChargeChild(ctx, r.state); err != nil {
		return false, err
	}
	if due := turn.Due(r.state); due != 0 {
		_ = r.p.cfg.Bus.SetTimer(r.session, due)
	}
	r.closeStack() // the session's next run opens it again
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if r.came != r.seen {
		return false, nil
	}
	r.p.endLocked(r)
	return true, nil
}

// wait waits for one event of the run and handles it.
func (r *run) wait(ctx context.Context, progress <-chan time.Time) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case c := <-r.completions:
		return r.complete(ctx, c)
	case id := <-r.telling.done:
		r.toldOf(id)
		return nil
	case f := <-r.facts:
		return r.recordFact(ctx, f)
	case <-r.batch.timer():
		return r.flush(ctx)
	case <-r.notified:
		if !r.moved.Load() {
			return nil
		}
		return r.look(ctx)
	case <-progress:
		return r.tick(ctx)
	}
}

// tick repeats what may have been lost: the progress of the wake, a notification, and the timer of a time that has
// passed by this worker's
// clock and that no server reported.
func (r *run) tick(ctx context.Context) error {
	r.keep()
	r.mark()
	r.branchLater = false
	if r.ticks++; r.ticks%lookTicks != 0 && !r.moved.Load() {
		return nil
	}
	if due := turn.Due(r.state); due > r.now() && due <= events.MillisOf(time.Now()) {
		_ = r.p.cfg.Bus.SetTimer(r.session, due)
	}
	return r.look(ctx)
}

// mark notifies projectors of the run's appends since the last call.
func (r *run) mark() {
	if r.unmarked {
		_ = r.p.cfg.Bus.MarkDirty(r.session)
		r.unmarked = false
	}
}

// lookTicks is the number of ticks between two reads of the log: 2.7 s.
const lookTicks = 4

// keep reports progress of the run's wake, so that the queue does not deliver it again.
func (r *run) keep() {
	if w := r.held(); w != nil {
		_ = w.Progress()
	}
}

// held is the run's wake; nil before the first.
func (r *run) held() *bus.Wake {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.wake
}

// catchUp folds the events of others.
func (r *run) catchUp(ctx context.Context) error {
	if len(r.batch.events) > 0 {
		return r.flush(ctx) // a conflict of the append shows them
	}
	before, began, count := r.state.Seq, time.Now(), r.arrived()
	err := follow.Sync(ctx, r.p.cfg.Bus.Log(), r.p.cfg.Bus, r.state)
	switch {
	case r.state.Seq != before && r.stack.Session != nil:
		err = errors.Join(err, r.openStack(ctx))
	case err == nil:
		began = time.Now() // a slow read must not make the state aged
	}
	switch {
	case err == nil:
		r.current, r.seen = began, count
	case ctx.Err() == nil && errors.Is(err, events.ErrOutcomeUnknown):
		r.current = time.Time{} // the log may have moved
		err = fmt.Errorf("%w: %w", errUnanswered, err)
	}
	return err
}

// errUnanswered is a read of the log that may be retried: servers that elect a leader do not respond, and effects
// must not end because of that.
var errUnanswered = errors.New("the log does not answer")

// look is catchUp, retried at the next tick if the log does not respond.
func (r *run) look(ctx context.Context) error {
	r.moved.Store(false)
	err := r.catchUp(ctx)
	if errors.Is(err, errUnanswered) {
		r.moved.Store(true)
		return nil
	}
	return err
}
