package sim

import (
	"errors"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/session/work"
)

const (
	fairTurns = 2 // turns of one session that a run executes while its node is full
	attempts  = 8 // starts of a turn without progress after which it fails
	free      = 3 // of these, starts in sequence without a wait
)

// points are the hook points of the plugin of every session.
var points = []events.HookPoint{events.PointBeforeModel, events.PointBeforeTool}

// run drives the machine of a worker's work on one session. Other processes act between two steps.
type run struct {
	n       *node
	w       *world
	session events.SessionID
	listed  bool // the node knows it, and gives it wakes
	m       *work.Machine
	then    func() error // the rest of a step of the machine; nil: the machine says the next one
	waits   bool         // the machine waits for an input
	err     error        // the reason why it ended

	wake        *wake // the wake of this run
	transferred *wake // that another worker was asked to accept
	arrivals    int64 // number of wakes and notifications so far

	completions  []*effect
	factRequests []*fact  // records that effects request
	recording    *fact    // the one that is being recorded
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

func (n *node) start(id events.SessionID, m *wake) {
	r := &run{n: n, w: n.w, session: id, wake: m, arrivals: 1, listed: true}
	r.m = work.New(work.Config{
		Worker: n.id, Trusted: 150 * time.Millisecond, Linger: 5 * time.Millisecond, FairTurns: fairTurns, Full: n.full,
		Extra: func() []events.Payload { return nil },
	})
	r.then = r.load
	n.runs = append(n.runs, r)
}

// replaceWakeLocked replaces the wake of the run.
func (r *run) replaceWakeLocked(m *wake) {
	r.wake = m
	r.logMovedLocked()
}

// logMovedLocked records that the log may have new commits.
func (r *run) logMovedLocked() {
	if looks {
		r.arrivals++
	}
}

func (r *run) facts() work.Facts {
	return work.Facts{Now: r.now(), Millis: r.w.now, Due: r.w.now, Arrivals: r.arrivals, Open: true, Draining: r.n.draining}
}

func (r *run) now() time.Time { return time.UnixMilli(int64(r.w.now)) }

// nextStep executes steps of the machine until one of them concerns other processes.
func (r *run) nextStep() {
	do := r.then
	r.then = nil
	switch {
	case do != nil:
	case r.waits:
		do = r.wait
	default:
		do = r.advance
	}
	if err := do(); err != nil {
		r.endWith(err)
	}
}

func (r *run) advance() error {
	for {
		rd := r.m.Ready(r.facts())
		switch rd.Do {
		case work.Add:
			for i := range rd.Events {
				r.m.Fold(&rd.Events[i], 0)
			}
			r.m.Added()
		case work.Claim:
			if err := r.claim(); err != nil {
				return err
			}
		case work.Drop:
			r.w.t.Logf("%s is superseded in %s", r.n.id, r.session)
			r.m.Drop(errSuperseded)
			r.answer(errSuperseded)
		case work.Answer:
			r.answer(rd.Err)
		default:
			return r.do(&rd)
		}
	}
}

// do executes a step that concerns other processes.
func (r *run) do(rd *work.Ready) error {
	switch rd.Do {
	case work.Wait:
		r.waits = true
	case work.Append:
		return r.append(rd)
	case work.Reread:
		r.w.t.Logf("%s conflicts in %s", r.n.id, r.session)
		if err := follow.SyncAfterConflict(r.w.ctx, r.w.log, nil, r.m.State); err != nil {
			return err
		}
		r.m.Reread()
	case work.Read:
		return r.readLog()
	case work.Look:
		last, err := r.w.log.Last(r.w.ctx, r.session)
		r.m.Looked(last, err, r.now())
	case work.Ask:
		r.transferred, r.then = r.wake, r.askWorker
	case work.Start:
		return r.startEffects(rd.Needs)
	case work.Branch:
		return r.branchOff(*rd.Queued)
	case work.HandOver:
		return errHandedOver
	case work.Yield:
		return errYields
	case work.End:
		if due := turn.Due(r.m.State); due != 0 {
			r.w.setTimer(r.session, due)
		}
		r.then = r.end
	default: // advance has the others, and no plugins are built, or called about ended turns
		r.w.t.Fatalf("step %+v", rd)
	}
	return nil
}

// load loads the state: the cached one, possibly old, or from the log.
func (r *run) load() error {
	f, suspicious := r.facts(), r.wake != nil && r.wake.times > 1
	if r.m.State = r.n.TakeState(r.session); r.m.State == nil {
		r.m.State = projector.New(r.session)
	} else if !suspicious && turn.NeedsWorker(r.m.State, r.w.now) {
		return nil // if the state is old, the first append conflicts
	}
	if err := follow.Sync(r.w.ctx, r.w.log, nil, r.m.State); err != nil {
		return err
	}
	r.m.Load(f)
	return nil
}

func (r *run) readLog() error {
	err := follow.Sync(r.w.ctx, r.w.log, nil, r.m.State)
	switch {
	case errors.Is(err, events.ErrOutcomeUnknown):
		r.m.Unanswered()
	case err == nil:
		r.m.Synced(r.now())
	default:
		return err
	}
	return nil
}

func (r *run) append(rd *work.Ready) error {
	c := r.w.commit(r.session, r.n.id, rd.Events...)
	c.At = rd.At
	at := r.m.Durable().Seq
	r.w.logAppend(string(r.n.id), c, at)
	seq, err := r.w.log.Append(r.w.ctx, c, at)
	if err == nil && seq != at+1 { // the log ignores the expected sequence
		err = &events.ConflictError{Session: r.session, Expected: at, Last: seq}
	}
	if err == nil {
		r.n.host.states[r.session], err = r.m.Signed(c)
	}
	_, err = r.m.Appended(seq, err)
	return err
}

// claim claims the next turn or the running one, or ends one whose attempts all failed.
func (r *run) claim() error {
	if t := r.m.State.Turn(); t != nil && t.Starts >= attempts {
		return r.m.GiveUp(events.Issue{Kind: "runtime", Code: "poisoned", Message: "given up"})
	} else if t != nil && t.Starts >= free && r.w.now-t.ClaimedAt < 1000 {
		return errSoon
	}
	r.m.Input(turn.Claim{Worker: r.n.id, Tools: catalog, Points: points})
	return nil
}

// askWorker asks the worker of the turn whether it runs the turn. If it does, it has the wake.
func (r *run) askWorker() error {
	t := r.m.State.Turn()
	yes := r.w.request(t.Worker, func(to *node) bool { return to.respond(r.session, t.ID, t.Attempt, r.transferred) })
	r.w.t.Logf("%s asks %s about %s of %s: %t", r.n.id, t.Worker, t.ID, r.session, yes)
	r.then = func() error {
		switch {
		case !yes:
			r.m.Unclaimed()
		case r.wake == r.transferred:
			r.wake = nil
			return errDropped
		}
		return nil
	}
	return nil
}

// branchOff executes the next step of a turn that continues in a session of its own: create that session, submit the
// turn there, end it here.
func (r *run) branchOff(q projector.QueuedTurn) error {
	id := branchOf(r.session, q.ID)
	switch {
	case r.branched != q.ID:
		r.w.open(id)
		r.branched = q.ID
		r.branch = []func(){func() {}}
	case len(r.branch) == 1:
		hints, err := r.n.host.request(id, q.ID, events.BusyEnqueue)
		if err != nil {
			return err
		}
		r.branch = append(r.branch, append(hints, func() {})...)
	case len(r.branch) > 2:
		do := r.branch[1]
		r.branch = slices.Delete(r.branch, 1, 2)
		do()
	default:
		r.branched = ""
		r.m.Append([]events.Event{events.Of(q.ID, &events.TurnDiverted{End: events.EndBranched, By: q.Behind, Session: id})})
	}
	return nil
}

func branchOf(id events.SessionID, name events.TurnID) events.SessionID {
	return id + "-" + events.SessionID(name)
}

// wait gives the machine one of the inputs that it waits for.
func (r *run) wait() error {
	r.waits = false
	does := []string{"ticks"}
	if len(r.completions) > 0 {
		does = append(does, "completes", "completes", "completes")
	}
	if len(r.factRequests) > 0 {
		does = append(does, "records", "records")
	}
	do := does[len(does)-1]
	if len(does) > 1 && !r.w.settling {
		do = rapid.SampledFrom(does).Draw(r.w.t, "waits")
	}
	switch do {
	case "ticks":
		r.m.Tick()
	case "records":
		r.recording = r.factRequests[0]
		r.factRequests = r.factRequests[1:]
		if err := r.m.Record(r.recording.effect.Effect, r.recording.list); err != nil {
			r.answer(err)
		}
	default:
		for _, e := range r.completions {
			r.m.Result(e.Effect, e.in)
		}
		r.completions = nil
	}
	return nil
}

// answer answers the effect whose record is under way.
func (r *run) answer(err error) {
	if f := r.recording; f != nil {
		f.done, f.refused, r.recording = true, err != nil, nil
	}
}

// end ends a run whose session needs nothing, unless a wake arrived.
func (r *run) end() error {
	if !r.m.HasNews(r.arrivals) {
		r.listed, r.then = false, r.finish
	}
	return nil
}

// endWith ends a run with an error.
func (r *run) endWith(err error) {
	if !errors.Is(err, errDropped) && !errors.Is(err, errHandedOver) && !errors.Is(err, errYields) &&
		!errors.Is(err, errSoon) && !errors.Is(err, events.ErrOutcomeUnknown) {
		r.w.t.Fatal(err)
	}
	r.w.t.Logf("%s ends its run of %s: %v", r.n.id, r.session, err)
	r.m.Drop(err)
	r.err, r.listed, r.then = err, false, r.finish
}

// finish acknowledges or returns the wake of a run.
func (r *run) finish() error {
	r.n.runs = slices.DeleteFunc(r.n.runs, func(have *run) bool { return have == r })
	q, m, wait := &r.w.queue, r.wake, events.Millis(0)
	switch {
	case errors.Is(r.err, errYields):
		r.w.publish(wakeKey{session: r.session}, "")
		return nil
	case errors.Is(r.err, errDropped), m == nil:
		return nil
	case r.err == nil:
		r.w.t.Logf("%s acks the wake of %s", r.n.id, r.session)
		r.w.maybeLost(func() { q.ack(m) })
		return nil
	case errors.Is(r.err, errSoon), errors.Is(r.err, events.ErrOutcomeUnknown):
		wait = 1000
	}
	r.w.maybeLost(func() { q.nak(m, r.w.now+wait) })
	return nil
}
