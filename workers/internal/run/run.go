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

	// Under the pool's lock.
	wake    *bus.Wake // that the run holds; nil: none came yet
	asked   *bus.Wake // that another worker was asked to hold
	came    int       // wakes and notifications so far
	turn    events.TurnID
	attempt int64         // of the turn that the run has claimed; the turn is empty where it has none
	due     events.Millis // what a server's clock has passed, as wakes say
	waiting int           // effects that wait for another session's turn

	moved    atomic.Bool // something was appended that the run did not see
	notified chan struct{}
	seen     int // of came, when the end of the log was known last

	completions chan completion
	inflight    map[events.EffectID]*effect
	facts       chan fact // what effects want recorded on their way
	ticks       int
	turns       int       // claimed since the run began
	current     time.Time // when the log was last known to end where the state does
	unmarked    bool      // it appended, and told no projector yet
	branchLater bool      // a turn could not branch off just now: not before the next tick
	telling     telling
	passed      events.Seq // of the state whose tasks had their wakes, see [session.Host.WakePassing]
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

// notify makes the run go through its loop.
func (r *run) notify() {
	select {
	case r.notified <- struct{}{}:
	default: // it will anyway
	}
}

// holdLocked puts a wake in the place of the one that the run holds. The run looks at the log before it acks.
func (r *run) holdLocked(w *bus.Wake) {
	r.wake, r.due = w, max(r.due, w.Due)
	r.behindLocked()
}

// behindLocked says that the log may have moved.
func (r *run) behindLocked() {
	r.came++
	r.moved.Store(true)
	r.notify()
}

// arrived is how many wakes and notifications came so far. What a look or an
// append finds that begins after the count was taken, includes what those are about.
func (r *run) arrived() int {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.came
}

// now is the time that servers have told of. A worker's own clock does not tell
// what is due: it may be ahead. Where it is past a time that no server told of
// yet, the timer that the end of the run sets fires at once.
func (r *run) now() events.Millis {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.due
}

// holds says which turn the run has claimed; none where the turn is empty.
func (r *run) holds(id events.TurnID, attempt int64) {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	r.turn, r.attempt = id, attempt
}

// ours reports whether a turn is the one that this run has claimed, in that attempt.
func (r *run) ours(t *projector.Turn) bool {
	return t != nil && t.Worker == r.p.cfg.ID && t.ID == r.turn && t.Attempt == r.attempt
}

// work claims and runs turns until the session owes nothing: nil means that the wake may be acknowledged.
func (r *run) work(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the effects that still run
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
			r.forget() // and goes on as if its wake had just come
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

// load gets the state: the one at hand, possibly behind, or from the log.
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
	if r.state = r.p.cfg.Host.TakeState(ctx, r.session); r.state != nil {
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

// owes reports whether the state at hand owes work, or does with the next
// commit, which is most often what the wake came for. Either may be behind the
// log: then the first append conflicts.
func (r *run) owes(ctx context.Context) bool {
	if turn.NeedsWorker(r.state, r.now()) {
		return true
	}
	entry, err := r.p.cfg.Bus.Log().Next(ctx, r.session, r.state.Seq+1)
	return err == nil && r.state.Apply(entry) == nil && turn.NeedsWorker(r.state, r.now())
}

// progress is where the state ends, 0 where there is none, and whether the
// running turn recorded anything since its last start.
func (r *run) progress() (events.Seq, bool) {
	if r.state == nil {
		return 0, false
	}
	t := r.state.Turn()
	return r.state.Seq, t != nil && t.Starts == 0
}

// forget drops a turn that another worker has taken over: its effects are
// cancelled, and their results are not recorded.
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

// advance steps until only outside events can help. It reports whether the
// session owes nothing. When ctx ends it starts nothing more: a call that was
// cancelled with it may have completed without a result, and the state owes it still.
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
	waits              // for effects that run
	atRest             // the state owes nothing
)

func (r *run) advanceOnce(ctx context.Context) (pace, error) {
	if r.state.Seq != r.passed { // what this worker folded may be a cancel whose host gave no hint, also before it took the turn over
		r.p.cfg.Host.WakePassing(r.state)
		r.passed = r.state.Seq
	}
	t := r.state.Turn()
	owes := turn.Next(r.state)
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
	if list := turn.DueEvents(r.state, now); len(list) > 0 {
		return goOn, r.alone(ctx, func() error { return r.record(ctx, list) })
	}
	switch {
	case t == nil && turn.Claimable(r.state):
		if len(r.telling.now) > 0 && (r.overdue() || r.p.draining.Load()) {
			return waits, nil // what plugins are being told would be cut off
		}
		return goOn, r.claimNext(ctx)
	case t == nil, parked && len(r.inflight) == 0:
		return r.rest(ctx)
	case owes.Stop:
		return goOn, r.stop(ctx)
	case r.p.draining.Load() && len(r.inflight) > 0:
		return waits, nil // effects that run may complete
	case r.p.draining.Load() && !begun(t):
		return goOn, r.release(ctx, t)
	case r.stack.Session == nil: // it was given up when the session seemed to rest, or could not follow a change
		err := r.reopen(ctx, owes)
		if errors.Is(err, errElsewhere) && len(r.inflight) > 0 {
			return waits, nil // effects that run may complete; tried again with the next tick
		}
		return goOn, err
	case turn.NeedsBegin(r.state):
		return goOn, r.step(ctx, turn.Begin{})
	case r.starts(owes) && r.aged():
		if err := r.renew(ctx); errors.Is(err, errUnanswered) {
			return waits, nil // started at the next tick, or later
		} else if err != nil {
			return goOn, err
		}
		return goOn, nil
	}
	if err := r.start(ctx); err != nil || len(r.inflight) > 0 {
		return waits, err
	}
	return goOn, nil // no effect runs: the turn broke instead
}

// alone does something that appends by itself, after what is pending was appended.
func (r *run) alone(ctx context.Context, do func() error) error {
	if len(r.batch.events) > 0 {
		return r.flush(ctx)
	}
	return do()
}

// rest makes sure that the session owes nothing at the end of the log, as far
// as that was when the newest wake came.
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
		return waits, nil // looked at again with the next tick
	}
	return goOn, err
}

// end ends a run whose session owes nothing, unless a wake came meanwhile.
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

// wait blocks until something happens and acts on it.
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

// tick repeats what may have been lost: the sign of life, a notification, and
// the timer of what is due by this worker's clock and no server has told of.
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

// mark tells projectors of what the run appended since it told them last.
func (r *run) mark() {
	if r.unmarked {
		_ = r.p.cfg.Bus.MarkDirty(r.session)
		r.unmarked = false
	}
}

// lookTicks is after how many signs of life a run looks at the log: every 2.7 s.
const lookTicks = 4

// keep is the sign of life for the wake that the run holds.
func (r *run) keep() {
	if w := r.held(); w != nil {
		_ = w.Progress()
	}
}

// held is the wake that the run holds; nil where none came yet.
func (r *run) held() *bus.Wake {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.wake
}

// catchUp folds what others appended.
func (r *run) catchUp(ctx context.Context) error {
	if len(r.batch.events) > 0 {
		return r.flush(ctx) // finds out by itself
	}
	before, began, count := r.state.Seq, time.Now(), r.arrived()
	err := follow.Sync(ctx, r.p.cfg.Bus.Log(), r.p.cfg.Bus, r.state)
	switch {
	case r.state.Seq != before && r.stack.Session != nil:
		err = errors.Join(err, r.openStack(ctx))
	case err == nil:
		began = time.Now() // however long that took: a slow log must not keep a run from going on
	}
	switch {
	case err == nil:
		r.current, r.seen = began, count
	case ctx.Err() == nil && errors.Is(err, events.ErrOutcomeUnknown):
		r.current = time.Time{} // it may have moved
		err = fmt.Errorf("%w: %w", errUnanswered, err)
	}
	return err
}

// errUnanswered is a look at the log that may be repeated: servers that elect a
// leader have no answer, and effects must not end for that.
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
