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

// phase is what a run does next. Each is one step, between which others act.
type phase int

const (
	loads    phase = iota // takes the state at hand, or folds
	works                 // goes through what the state owes, or waits
	asks                  // a question to the worker of a turn is on its way
	answered              // the answer is here
	rests                 // sets the timer
	ends                  // ends, unless a wake came
	settles               // tells the queue
)

// pace is how a run goes through what its state owes.
type pace int

const (
	goOn   pace = iota // the state may owe more
	waits              // for what is in flight
	atRest             // the state owes nothing
)

// run works on one session, as a run of package workers/internal/run does.
type run struct {
	n       *node
	w       *world
	session events.SessionID
	listed  bool // the node answers for it, and gives it wakes
	phase   phase
	pace    pace
	state   *projector.State
	batch   batch
	err     error // why it ended

	wake    *wake // that it holds
	asked   *wake // that another worker was asked to hold
	came    int   // wakes and notifications so far
	seen    int   // of these, when the end of the log was known last
	moved   bool
	turn    events.TurnID // that it has claimed
	attempt int64
	yes     bool // the other worker runs the turn
	alone   bool // no other worker runs it, as far as they say

	current     events.Millis // when the log was known to end where the state does
	inflight    []*effect
	completions []*effect
	asks        []*fact // what effects want recorded
	turns       int
	branch      []func() // what is left of a turn's way to another session
	branched    events.TurnID
}

var (
	errSuperseded = errors.New("superseded")
	errDropped    = errors.New("the wake is another worker's")
	errHandedOver = errors.New("handed over")
	errYields     = errors.New("a new wake stands at the end of the queue")
	errSoon       = errors.New("waits for its next attempt")
)

// hold puts a wake in the place of the one that the run holds.
func (r *run) hold(m *wake) {
	r.wake = m
	r.behind()
}

// behind says that the log may have moved.
func (r *run) behind() {
	r.came++
	r.moved = true
}

func (r *run) holds(id events.TurnID, attempt int64) { r.turn, r.attempt = id, attempt }

// ours reports whether a turn is the one that this run has claimed, in that attempt.
func (r *run) ours(t *projector.Turn) bool {
	return t != nil && t.Worker == r.n.id && t.ID == r.turn && t.Attempt == r.attempt
}

func (r *run) step() {
	var err error
	switch r.phase {
	case loads:
		err = r.load()
	case works:
		err = r.work()
	case asks:
		r.ask()
	case answered:
		err = r.heard()
	case rests:
		r.rests()
	case ends:
		err = r.end()
	case settles:
		r.settle()
	}
	if errors.Is(err, errSuperseded) {
		r.forget()
	} else if err != nil {
		r.stop(err)
	}
}

// load gets the state: the one at hand, possibly behind, or from the log.
func (r *run) load() error {
	r.phase = works
	suspicious := r.wake != nil && r.wake.times > 1
	if r.state = r.n.cached(r.session); r.state == nil {
		r.state = projector.New(r.session)
	} else if !suspicious && turn.NeedsWorker(r.state, r.w.now) {
		return nil // if the state is behind, the first append conflicts
	}
	count := r.came
	if err := follow.Sync(r.w.ctx, r.w.log, nil, r.state); err != nil {
		return err
	}
	r.current, r.seen = r.w.now, count
	return nil
}

// forget lets go of a turn that another worker has taken over, and goes on as
// if its wake had just come.
func (r *run) forget() {
	r.w.t.Logf("%s is superseded in %s", r.n.id, r.session)
	r.rollBack()
	r.cancelAll()
	r.holds("", 0)
	r.phase, r.pace = works, goOn
}

func (r *run) cancelAll() {
	for _, e := range r.inflight {
		e.cancelled = true
	}
	r.inflight = nil
}

// work goes on, or waits for one of the things that can happen.
func (r *run) work() (err error) {
	if r.pace == waits {
		r.pace = goOn
		return r.wait()
	}
	r.pace, err = r.advance()
	if r.pace == atRest && err == nil {
		r.phase = rests
	}
	return err
}

func (r *run) advance() (pace, error) {
	t := r.state.Turn()
	owes := turn.Next(r.state)
	parked := owes.Parked() && !owes.Stop
	if t != nil && !parked && !r.ours(t) {
		return goOn, r.meet(t)
	}
	if q := turn.Branching(r.state); q != nil {
		return goOn, r.byItself(func() error { return r.branchOff(*q) })
	}
	if list := turn.DueEvents(r.state, r.w.now); len(list) > 0 {
		return goOn, r.byItself(func() error { return r.record(list) })
	}
	switch {
	case t == nil && turn.NeedsWorker(r.state, r.w.now):
		return goOn, r.claimNext()
	case t == nil, parked && len(r.inflight) == 0:
		return r.rest()
	case owes.Stop:
		return goOn, r.stopTurn()
	case r.n.draining && len(r.inflight) > 0:
		return waits, nil
	case r.n.draining && !begun(t):
		return goOn, r.release(t)
	case turn.NeedsBegin(r.state):
		return goOn, r.take(turn.Begin{})
	case r.starts(owes) && r.aged():
		return goOn, r.renew()
	}
	return waits, r.start(owes)
}

// byItself does something that appends by itself, after what is pending was appended.
func (r *run) byItself(do func() error) error {
	if len(r.batch.events) > 0 {
		return r.flush()
	}
	return do()
}

// rest makes sure that the session owes nothing at the end of the log, as far
// as that was when the newest wake came.
func (r *run) rest() (pace, error) {
	switch {
	case len(r.batch.events) > 0:
		return goOn, r.flush()
	case r.seen == r.came || !looks && r.seen >= 0:
		return atRest, nil
	}
	return goOn, r.catchUp()
}

func (r *run) rests() {
	if due := turn.Due(r.state); due != 0 {
		r.w.setTimer(r.session, due)
	}
	r.phase = ends
}

// end ends a run whose session owes nothing, unless a wake came meanwhile.
func (r *run) end() error {
	if r.came != r.seen && looks {
		r.phase, r.pace = works, goOn
		return nil
	}
	r.unlist()
	return nil
}

// unlist ends a run; what remains is to tell the queue.
func (r *run) unlist() { r.listed, r.phase = false, settles }

// stop ends a run with an error.
func (r *run) stop(err error) {
	if !errors.Is(err, errDropped) && !errors.Is(err, errHandedOver) && !errors.Is(err, errYields) &&
		!errors.Is(err, errSoon) && !errors.Is(err, events.ErrOutcomeUnknown) {
		r.w.t.Fatal(err)
	}
	r.w.t.Logf("%s ends its run of %s: %v", r.n.id, r.session, err)
	r.err = err
	r.cancelAll()
	r.unlist()
}

// settle tells the queue how a run ended.
func (r *run) settle() {
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
		r.w.say(func() { q.ack(m) })
		return
	case errors.Is(r.err, errSoon), errors.Is(r.err, events.ErrOutcomeUnknown):
		wait = 1000
	}
	r.w.say(func() { q.giveBack(m, r.w.now+wait) })
}

// wait does one of the things that a run waits for.
func (r *run) wait() error {
	does := []string{"looks"} // a tick, also where a notification was lost
	if len(r.completions) > 0 {
		does = append(does, "completes", "completes", "completes")
	}
	if len(r.asks) > 0 {
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
		return r.complete(e)
	case "records":
		f := r.asks[0]
		r.asks = r.asks[1:]
		return r.recordFact(f)
	case "flushes":
		return r.flush()
	}
	r.moved = false
	return r.catchUp()
}

// catchUp folds what others appended.
func (r *run) catchUp() error {
	if len(r.batch.events) > 0 {
		return r.flush() // finds out by itself
	}
	count := r.came
	if err := follow.Sync(r.w.ctx, r.w.log, nil, r.state); err != nil {
		return err
	}
	r.current, r.seen = r.w.now, count
	return nil
}

// trusted is how long effects start on a state without a look at the log.
const trusted = 150

func (r *run) aged() bool { return r.w.now-r.current > trusted }

// renew looks where the log ends. What lingers goes on lingering where it has not moved.
func (r *run) renew() error {
	if len(r.batch.events) > 0 {
		if last, err := r.w.log.Last(r.w.ctx, r.session); err == nil && last == r.batch.durable.Seq {
			r.current = r.w.now
			return nil
		}
	}
	return r.catchUp()
}
