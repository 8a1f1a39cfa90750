package sim

import (
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/turn"
)

const (
	fairTurns = 2 // turns of one session that a run executes while its node is full
	attempts  = 8 // starts of a turn without progress after which it fails
	free      = 3 // of these, starts in sequence without a wait
)

// points are the hook points of the plugin of every session.
var points = []events.HookPoint{events.PointBeforeModel, events.PointBeforeTool}

func (r *run) claim() turn.Claim {
	return turn.Claim{Worker: r.n.id, Tools: catalog, Points: points}
}

// claimNext starts the next turn.
func (r *run) claimNext() error {
	switch {
	case r.n.draining:
		return r.endForStop()
	case r.turns >= fairTurns && r.n.full():
		return r.yield()
	}
	r.turns++
	return r.step(r.claim())
}

// yield ends a run between two turns, and publishes a new wake at the end of the queue.
func (r *run) yield() error {
	if len(r.batch.events) > 0 {
		return r.flush()
	}
	return errYields
}

func (r *run) endForStop() error {
	if len(r.batch.events) > 0 {
		return r.flush()
	}
	return errHandedOver
}

// transferOrTakeOver handles a running turn that this run has not claimed. It passes its wake to the worker that runs the turn, or
// takes the turn over.
func (r *run) transferOrTakeOver(t *projector.Turn) error {
	if len(r.inflight) > 0 || len(r.batch.events) > 0 {
		return errSuperseded
	}
	if t.Worker != r.n.id && !r.unclaimed {
		r.transferred, r.phase = r.wake, offers
		return nil
	}
	r.unclaimed = false
	if r.n.draining {
		return r.endForStop()
	}
	return r.takeOver(t)
}

// takeOver claims a turn whose worker does not run it, or ends one whose attempts all failed.
func (r *run) takeOver(t *projector.Turn) error {
	switch {
	case t.Starts >= attempts:
		return r.fail()
	case t.Starts >= free && r.w.now-t.ClaimedAt < 1000:
		return errSoon
	}
	return r.step(r.claim())
}

// fail ends a turn whose attempts all failed.
func (r *run) fail() error {
	list, err := turn.GiveUp(r.state, events.Issue{Kind: "runtime", Code: "poisoned", Message: "given up"})
	if err != nil {
		return unlessStale(err)
	}
	return r.record(list)
}

// offerWake asks the worker of the turn whether it runs the turn.
func (r *run) offerWake() {
	t := r.state.Turn()
	r.accepted = r.w.request(t.Worker, func(to *node) bool { return to.respond(r.session, t.ID, t.Attempt, r.transferred) })
	r.w.t.Logf("%s asks %s about %s of %s: %t", r.n.id, t.Worker, t.ID, r.session, r.accepted)
	r.phase = responded
}

// handleResponse ends a run whose wake another worker has now, unless a new wake arrived.
func (r *run) handleResponse() error {
	r.phase, r.pace, r.unclaimed = works, goOn, !r.accepted
	if !r.accepted || r.wake != r.transferred {
		return nil
	}
	r.wake = nil
	return errDropped
}

// release appends the release of the running turn.
func (r *run) release(t *projector.Turn) error {
	if err := r.record([]events.Event{events.Of(t.ID, &events.TurnReleased{Worker: r.n.id})}); err != nil {
		return err
	}
	r.setClaim("", 0)
	return errHandedOver
}

// hasStartedCall reports whether the history has the start of a call without its result.
func hasStartedCall(t *projector.Turn) bool {
	return slices.ContainsFunc(t.Calls, func(c projector.Call) bool { return c.Called && !c.Done && !c.Pended })
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
		return r.record([]events.Event{events.Of(q.ID, &events.TurnDiverted{End: events.EndBranched, By: q.Behind, Session: id})})
	}
	return nil
}

func branchOf(id events.SessionID, name events.TurnID) events.SessionID {
	return id + "-" + events.SessionID(name)
}
