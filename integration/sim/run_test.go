package sim

import (
	"errors"
	"slices"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/turn"
)

// phase is the next step of a run. Other processes act between two steps.
type phase int

const (
	loads       phase = iota // takes the cached state, or folds
	works                    // executes the needs of the state, or waits
	offers                   // a request to the worker of a turn is pending
	responded                // its response has arrived
	rests                    // sets the timer
	ends                     // ends, unless a wake arrived
	returnsWake              // acknowledges or returns the wake
)

// pace is the progress of a run with the needs of its state.
type pace int

const (
	goOn         pace = iota // the state may need more
	waits                    // for running effects
	needsNothing             // the state needs nothing
)

// run is the work on one session, like a run of package workers/internal/run.
type run struct {
	n       *node
	w       *world
	session events.SessionID
	listed  bool // the node knows it, and gives it wakes
	phase   phase
	pace    pace
	state   *projector.State
	batch   batch
	err     error // the reason why it ended

	wake         *wake // the wake of this run
	transferred  *wake // that another worker was asked to accept
	arrivals     int   // number of wakes and notifications so far
	arrivalsRead int   // their number at the last read of the log's end
	moved        bool
	turn         events.TurnID // claimed by this run
	attempt      int64
	accepted     bool // the other worker runs the turn
	unclaimed    bool // no other worker runs it, by their responses

	current      events.Millis // time at which the state was at the end of the log
	inflight     []*effect
	completions  []*effect
	factRequests []*fact // records that effects request
	turns        int
	branch       []func() // remaining steps of a turn that continues in another session
	branched     events.TurnID
}

var (
	errSuperseded = errors.New("superseded")
	errDropped    = errors.New("the wake is another worker's")
	errHandedOver = errors.New("handed over")
	errYields     = errors.New("a new wake stands at the end of the queue")
	errSoon       = errors.New("waits for its next attempt")
)

// replaceWakeLocked replaces the wake of the run.
func (r *run) replaceWakeLocked(m *wake) {
	r.wake = m
	r.logMovedLocked()
}

// logMovedLocked records that the log may have new commits.
func (r *run) logMovedLocked() {
	r.arrivals++
	r.moved = true
}

func (r *run) setClaim(id events.TurnID, attempt int64) { r.turn, r.attempt = id, attempt }

// isOurs reports whether this run has claimed the turn in that attempt.
func (r *run) isOurs(t *projector.Turn) bool {
	return t != nil && t.Worker == r.n.id && t.ID == r.turn && t.Attempt == r.attempt
}

func (r *run) nextStep() {
	var err error
	switch r.phase {
	case loads:
		err = r.load()
	case works:
		err = r.work()
	case offers:
		r.offerWake()
	case responded:
		err = r.handleResponse()
	case rests:
		r.setTimer()
	case ends:
		err = r.end()
	case returnsWake:
		r.finish()
	}
	if errors.Is(err, errSuperseded) {
		r.dropTurn()
	} else if err != nil {
		r.endWith(err)
	}
}

// load loads the state: the cached one, possibly old, or from the log.
func (r *run) load() error {
	r.phase = works
	suspicious := r.wake != nil && r.wake.times > 1
	if r.state = r.n.TakeState(r.session); r.state == nil {
		r.state = projector.New(r.session)
	} else if !suspicious && turn.NeedsWorker(r.state, r.w.now) {
		return nil // if the state is old, the first append conflicts
	}
	count := r.arrivals
	if err := follow.Sync(r.w.ctx, r.w.log, nil, r.state); err != nil {
		return err
	}
	r.current, r.arrivalsRead = r.w.now, count
	return nil
}

// dropTurn drops a turn that another worker has taken over. The run continues as after a new wake.
func (r *run) dropTurn() {
	r.w.t.Logf("%s is superseded in %s", r.n.id, r.session)
	r.rollBack()
	r.cancelAll()
	r.setClaim("", 0)
	r.phase, r.pace = works, goOn
}

func (r *run) cancelAll() {
	for _, e := range r.inflight {
		e.cancelled = true
	}
	r.inflight = nil
}

// work executes the next step, or waits for one of the possible events.
func (r *run) work() (err error) {
	if r.pace == waits {
		r.pace = goOn
		return r.wait()
	}
	r.pace, err = r.advance()
	if r.pace == needsNothing && err == nil {
		r.phase = rests
	}
	return err
}

func (r *run) advance() (pace, error) {
	t := r.state.Turn()
	needs := turn.Next(r.state)
	parked := needs.Parked()
	if t != nil && !parked && !r.isOurs(t) {
		return goOn, r.transferOrTakeOver(t)
	}
	if q := turn.Branching(r.state); q != nil {
		return goOn, r.flushOrDo(func() error { return r.branchOff(*q) })
	}
	if list := turn.DueEvents(r.state, r.w.now); len(list) > 0 {
		return goOn, r.flushOrDo(func() error { return r.record(list) })
	}
	switch {
	case t == nil && turn.Claimable(r.state):
		return goOn, r.claimNext()
	case t == nil, parked && len(r.inflight) == 0:
		return r.rest()
	case needs.Stop:
		return goOn, r.stop()
	case r.n.draining && len(r.inflight) > 0:
		return waits, nil
	case r.n.draining && !hasStartedCall(t):
		return goOn, r.release(t)
	case turn.NeedsStartCalls(r.state):
		return goOn, r.step(turn.StartCalls{})
	case len(needs.Calls) > 0 && r.hasNewEffect(needs) && len(r.batch.events) > 0:
		return goOn, r.flush()
	case r.hasNewEffect(needs) && r.isAged():
		return goOn, r.renewState()
	}
	return waits, r.start(needs)
}

// flushOrDo flushes the batch, and then runs do, which appends separately.
func (r *run) flushOrDo(do func() error) error {
	if len(r.batch.events) > 0 {
		return r.flush()
	}
	return do()
}

// rest checks that the session needs nothing at the end of the log, read after the newest wake arrived.
func (r *run) rest() (pace, error) {
	switch {
	case len(r.batch.events) > 0:
		return goOn, r.flush()
	case r.arrivalsRead == r.arrivals || !looks && r.arrivalsRead >= 0:
		return needsNothing, nil
	}
	return goOn, r.catchUp()
}

func (r *run) setTimer() {
	if due := turn.Due(r.state); due != 0 {
		r.w.setTimer(r.session, due)
	}
	r.phase = ends
}

// end ends a run whose session needs nothing, unless a wake arrived.
func (r *run) end() error {
	if r.arrivals != r.arrivalsRead && looks {
		r.phase, r.pace = works, goOn
		return nil
	}
	r.unlist()
	return nil
}

// unlist ends a run. The remaining step is the acknowledgement of its wake.
func (r *run) unlist() { r.listed, r.phase = false, returnsWake }

// endWith ends a run with an error.
func (r *run) endWith(err error) {
	if !errors.Is(err, errDropped) && !errors.Is(err, errHandedOver) && !errors.Is(err, errYields) &&
		!errors.Is(err, errSoon) && !errors.Is(err, events.ErrOutcomeUnknown) {
		r.w.t.Fatal(err)
	}
	r.w.t.Logf("%s ends its run of %s: %v", r.n.id, r.session, err)
	r.err = err
	r.cancelAll()
	r.unlist()
}

// finish acknowledges or returns the wake of a run.
func (r *run) finish() {
	r.n.runs = slices.DeleteFunc(r.n.runs, func(have *run) bool { return have == r })
	q, m, wait := &r.w.queue, r.wake, events.Millis(0)
	switch {
	case errors.Is(r.err, errYields):
		r.w.publish(wakeKey{session: r.session}, "")
		return
	case errors.Is(r.err, errDropped), m == nil:
		return
	case r.err == nil:
		r.w.t.Logf("%s acks the wake of %s", r.n.id, r.session)
		r.w.maybeLost(func() { q.ack(m) })
		return
	case errors.Is(r.err, errSoon), errors.Is(r.err, events.ErrOutcomeUnknown):
		wait = 1000
	}
	r.w.maybeLost(func() { q.nak(m, r.w.now+wait) })
}

// wait executes one of the events that a run waits for.
func (r *run) wait() error {
	does := []string{"looks"} // a tick, in case a notification was lost
	if len(r.completions) > 0 {
		does = append(does, "completes", "completes", "completes")
	}
	if len(r.factRequests) > 0 {
		does = append(does, "records", "records")
	}
	if len(r.batch.events) > 0 {
		does = append(does, "flushes")
	}
	do := does[len(does)-1]
	if len(does) > 1 && !r.w.settling {
		do = rapid.SampledFrom(does).Draw(r.w.t, "waits")
	}
	switch do {
	case "completes":
		e := r.completions[0]
		r.completions = r.completions[1:]
		return r.handleResult(e)
	case "records":
		f := r.factRequests[0]
		r.factRequests = r.factRequests[1:]
		return r.handleRecordRequest(f)
	case "flushes":
		return r.flush()
	}
	r.moved = false
	return r.catchUp()
}

// catchUp folds the commits of others.
func (r *run) catchUp() error {
	if len(r.batch.events) > 0 {
		return r.flush() // the append finds a conflict
	}
	count := r.arrivals
	if err := follow.Sync(r.w.ctx, r.w.log, nil, r.state); err != nil {
		return err
	}
	r.current, r.arrivalsRead = r.w.now, count
	return nil
}

// trusted is the time, in ms, for which effects start on a state without a read of the log's end.
const trusted = 150

func (r *run) isAged() bool { return r.w.now-r.current > trusted }

// renewState reads the end of the log. Where it has not moved, the batch keeps waiting.
func (r *run) renewState() error {
	if len(r.batch.events) > 0 {
		if last, err := r.w.log.Last(r.w.ctx, r.session); err == nil && last == r.batch.durable.Seq {
			r.current = r.w.now
			return nil
		}
	}
	return r.catchUp()
}
