package work

import (
	"slices"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/turn"
)

// Config configures a machine. Every field is required, except that Linger may be 0.
type Config struct {
	Worker events.WorkerID
	// Trusted is how long a run may start effects without asking the log whether it still ends at the run's state. After a
	// late response or a slow call, another worker may have taken the turn over, run the same effect and recorded it. The
	// time is shorter than the one after which other workers count a worker as gone.
	Trusted   time.Duration
	Linger    time.Duration                // longest time that a batch waits for further results, see package turn; 0: none waits
	FairTurns int                          // turns that a run does in a row while its process is full
	Extra     func() []events.Payload      // additional events of an input, asked for once
	Full      func() bool                  // no other session can start in the process
	Broken    func(err error) events.Issue // of a turn whose events the log refuses
}

// Facts are what the driver knows when it asks.
type Facts struct {
	Now       time.Time      // of the process, for differences
	Millis    events.Millis  // of the servers, as far as the process knows: the time of a commit
	Due       events.Millis  // latest time that a server reported as passed
	Arrivals  int64          // wakes and notifications so far
	Told      []events.Event // they say that calls about ended turns returned; the history lacks them
	Calling   bool           // a call about an ended turn runs
	Open      bool           // the plugins of the session are built
	Draining  bool           // the process stops: no effect starts
	Suspected bool           // an earlier run may have killed its worker
}

// Do is what the driver does next.
type Do int

// See the package documentation.
const (
	Wait Do = iota
	Add
	Append
	Reread
	Read
	Look
	Ask
	Claim
	Open
	Start
	Answer
	Branch
	Notify
	Drop
	HandOver
	Yield
	Fail
	End
)

// Ready is the next step of the driver.
type Ready struct {
	Do     Do
	Until  time.Time                // of Wait; zero: without a limit
	Events []events.Event           // of Add and Append
	At     events.Millis            // time of the commit of Append
	Inputs []turn.Input             // of Reread: those that are decided again, if the turn is still this run's; a claim is made again
	Needs  turn.Needs               // of Open and Start
	Queued *projector.QueuedTurn    // of Branch
	Ran    map[events.EffectID]bool // of Add of [turn.Stop]: the effects that ran when the stop began
	Err    error                    // of Answer and Fail
}

// Attempt is an attempt of a turn that a run has claimed; the turn is empty if there is none.
type Attempt struct {
	Turn   events.TurnID
	Number int64
}

// Effect is an effect that runs.
type Effect struct {
	Turn   events.TurnID
	ID     events.EffectID
	Cancel func(why error) // ends it. nil: its turn ends. Else the turn goes on elsewhere
	Prompt string          // digest of the prompt of a model call
	Grace  time.Duration   // that it has to return after its turn is cancelled; at least [stopGrace]
	ahead  bool            // it builds on events that are not in the log yet
}

// Machine decides what a worker does for one session. Its methods are called by one goroutine.
type Machine struct {
	State *projector.State // with the events of the batch

	cfg      Config
	facts    Facts
	batch    batch
	queue    []queued     // to be stepped
	adding   *queued      // whose events the driver adds
	again    []turn.Input // inputs of a batch that conflicted
	flushing bool         // the batch does not linger
	reread   bool         // an append conflicted
	stepped  bool         // inputs were stepped again since the last look at the prompts
	ahead    bool         // the batch that conflicted was [batch].ahead
	dropped  []turn.Input // see Discarded

	end        logEnd
	asked      request // of the append or read that is under way
	resets     int     // of the state before the read
	unanswered bool    // the log did not answer; it is read again after the next tick
	ticks      int

	claimed, before Attempt // before: the one before the append that is under way
	unclaimed       Attempt // its worker says that it does not run it
	superseded      bool
	turns           int // claimed by this run

	Inflight  map[events.EffectID]*Effect
	recording *Effect                  // waits until its events are in the log
	ran       map[events.EffectID]bool // effects that ran when the stop of the turn began; nil: it has not begun
	stopUntil time.Time
	later     bool // the last step is repeated after an input
	notified  bool // the driver has just looked for calls about ended turns
}

// queued is an input, or events that follow from none.
type queued struct {
	in     turn.Input
	list   []events.Event
	ahead  bool // the input is of an effect that built on events of the batch
	linger bool
}

// New makes the machine of a run, without a state.
func New(cfg Config) *Machine {
	return &Machine{cfg: cfg, end: logEnd{known: -1}, Inflight: make(map[events.EffectID]*Effect)}
}

// Claimed is the attempt that the run has claimed.
func (m *Machine) Claimed() Attempt { return m.claimed }

// IsOurs reports whether this run has claimed that attempt of a turn.
func (m *Machine) IsOurs(t *projector.Turn) bool {
	return t != nil && t.Worker == m.cfg.Worker && m.claimed == Attempt{t.ID, t.Attempt}
}

// Ready is the next step.
func (m *Machine) Ready(f Facts) Ready {
	m.facts = f
	rd, found := m.nextOfBatch()
	if !found {
		rd = m.nextOfState()
	}
	m.notified = rd.Do == Notify
	return rd
}

// nextOfState decides by the state; no input waits.
func (m *Machine) nextOfState() Ready {
	t, needs := m.State.Turn(), turn.Next(m.State)
	parked := needs.Parked()
	if m.ran != nil && len(m.Inflight) > 0 {
		if m.facts.Now.Before(m.stopUntil) {
			return m.wait(m.stopUntil)
		}
		clear(m.Inflight) // an effect that ignores its context is abandoned
	}
	if !needs.Stop {
		m.ran = nil
	}
	if m.later {
		m.later = false
		return m.wait(time.Time{})
	}
	if t != nil && !parked && !m.IsOurs(t) {
		return m.foreign(t)
	}
	if m.mayNotify() {
		return Ready{Do: Notify}
	}
	if q := turn.Branching(m.State); q != nil {
		return m.flushOr(Ready{Do: Branch, Queued: q})
	}
	list := turn.DueEvents(m.State, m.facts.Due)
	switch {
	case len(list) > 0 && len(m.batch.events) > 0:
		return m.append()
	case len(list) > 0:
		return m.add(queued{list: list})
	case t == nil && turn.Claimable(m.State):
		return m.claimNext()
	case t == nil, parked && len(m.Inflight) == 0:
		return m.rest()
	case needs.Stop:
		return m.stop()
	}
	return m.goOn(t, needs)
}

// mayNotify reports whether the driver looks for calls about ended turns: plugins learn only of events in the log.
func (m *Machine) mayNotify() bool {
	return len(m.State.Unnotified) > 0 && len(m.batch.events) == 0 && !m.notified
}

// flushOr appends the batch; where the batch is empty, the step is next.
func (m *Machine) flushOr(next Ready) Ready {
	if len(m.batch.events) > 0 {
		return m.append()
	}
	return next
}

// foreign handles a running turn that this run has not claimed: the wake goes to the worker that runs it, or the run
// takes the turn over.
func (m *Machine) foreign(t *projector.Turn) Ready {
	switch {
	case len(m.Inflight) > 0, len(m.batch.events) > 0:
		return Ready{Do: Drop}
	case t.Worker != m.cfg.Worker && m.unclaimed != Attempt{t.ID, t.Attempt}:
		return Ready{Do: Ask}
	case m.facts.Draining && m.facts.Calling:
		return m.wait(time.Time{}) // the calls about ended turns would be cut off
	case m.facts.Draining:
		return m.leave(HandOver)
	case m.facts.Suspected && m.mayNotify(): // one suspect at a time: the calls about ended turns first
		return Ready{Do: Notify}
	case m.facts.Suspected && m.facts.Calling:
		return m.wait(time.Time{})
	}
	m.unclaimed = Attempt{}
	return Ready{Do: Claim}
}

// claimNext starts the next turn: the first of the queue, or one for the input of a monitor.
func (m *Machine) claimNext() Ready {
	share := m.turns >= m.cfg.FairTurns && m.cfg.Full()
	switch {
	case m.facts.Calling && (m.facts.Suspected || share || m.facts.Draining):
		return m.wait(time.Time{}) // the calls about ended turns would be cut off, or are suspects
	case m.facts.Draining:
		return m.leave(HandOver)
	case share:
		return m.leave(Yield)
	}
	return Ready{Do: Claim}
}

// leave records what plugins were told, and then ends the run.
func (m *Machine) leave(how Do) Ready {
	if len(m.facts.Told) > 0 {
		return m.add(queued{list: m.facts.Told})
	}
	return m.flushOr(Ready{Do: how})
}

// rest makes sure that the session needs nothing at the end of the log, as of the newest wake.
func (m *Machine) rest() Ready {
	switch {
	case len(m.batch.events) > 0:
		return m.append()
	case len(m.facts.Told) > 0:
		return m.add(queued{list: m.facts.Told})
	case m.facts.Calling:
		return m.wait(time.Time{})
	case len(m.State.Unnotified) > 0 && m.facts.Draining:
		return Ready{Do: HandOver}
	case len(m.State.Unnotified) > 0 || m.unanswered:
		return m.wait(time.Time{}) // another worker calls plugins; if it dies, this run does
	case !m.HasNews(m.facts.Arrivals):
		return Ready{Do: End}
	}
	return m.request(Read)
}

// stopGrace is the time that cancelled effects have to return their results.
const stopGrace = 500 * time.Millisecond

// stop ends a turn whose cancel was requested: it cancels the effects, records the results that they still return, and
// ends the rest as cancelled.
func (m *Machine) stop() Ready {
	if m.ran == nil {
		grace := stopGrace
		m.ran = make(map[events.EffectID]bool, len(m.Inflight))
		for _, e := range m.Inflight {
			m.ran[e.ID] = true
			grace = max(grace, e.Grace)
			e.Cancel(nil)
		}
		m.stopUntil = m.facts.Now.Add(grace)
	}
	if len(m.Inflight) > 0 {
		return m.wait(m.stopUntil)
	}
	return m.decide(turn.Stop{})
}

// goOn starts what the run's turn needs, unless the run gives it up.
func (m *Machine) goOn(t *projector.Turn, needs turn.Needs) Ready {
	starts, lingers := m.startsEffect(needs), len(m.batch.events) > 0
	switch {
	case m.facts.Draining && (len(m.Inflight) > 0 || m.facts.Calling):
		return m.wait(time.Time{}) // running effects and turn-end calls may complete
	case m.facts.Draining && !hasStartedCall(t):
		return m.release(t)
	case !m.facts.Open:
		return Ready{Do: Open, Needs: needs}
	case turn.NeedsStartCalls(m.State):
		return m.decide(turn.StartCalls{})
	case !starts:
		return m.wait(time.Time{})
	case len(needs.Calls) > 0 && lingers:
		return m.append() // the time that the call gets is one of the log; hooks get that of the batch, which records them, too
	case !m.isAged():
		return Ready{Do: Start, Needs: needs}
	case m.unanswered:
		return m.wait(time.Time{}) // started at a later tick
	case lingers:
		return m.request(Look)
	}
	return m.request(Read)
}

// release records that this worker gives up the running turn. The attempt then does not count as a failed one, and the
// next worker takes over without a request to this one.
func (m *Machine) release(t *projector.Turn) Ready {
	list := append(slices.Clip(m.facts.Told), events.Of(t.ID, &events.TurnReleased{Worker: m.cfg.Worker}))
	return m.add(queued{list: list})
}

// hasStartedCall reports whether the history has the start of a call in this process without its result. No other
// worker may run such a call.
func hasStartedCall(t *projector.Turn) bool {
	return slices.ContainsFunc(t.Calls, func(c projector.Call) bool { return c.Called && c.Holder == "" && !c.Done && !c.Pended })
}

// startsEffect reports whether the state needs an effect that does not run yet.
func (m *Machine) startsEffect(needs turn.Needs) bool {
	switch {
	case needs.Hooks != "":
		return m.Inflight[turn.HookEffect(needs)] == nil
	case needs.Model:
		return m.Inflight[turn.ModelEffect(needs.Turn, needs.Iteration)] == nil
	}
	return slices.ContainsFunc(needs.Calls, func(c turn.Call) bool { return m.Inflight[c.Effect] == nil })
}

// wait waits for an input. Where a wake or a notification came, the log is read first. A batch that lingered long enough is appended.
func (m *Machine) wait(until time.Time) Ready {
	reads, at := m.HasNews(m.facts.Arrivals) && !m.unanswered, m.batch.until
	switch {
	case len(m.batch.events) > 0 && (reads || !at.IsZero() && !m.facts.Now.Before(at)):
		return m.append() // a conflict of the append shows the commits of others
	case reads:
		return m.request(Read)
	case !at.IsZero() && (until.IsZero() || at.Before(until)):
		until = at
	}
	return Ready{Do: Wait, Until: until}
}
