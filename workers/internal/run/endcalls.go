package run

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/internal/wake"
)

// endCalls is the state of a run's calls to plugins about ended turns. The event turn.announced, which follows a turn's
// end, says that such a call is due; turn.told says that it returned. Where a call of the parent waits for the turn, the parent gets its
// result before turn.told. One worker makes the call of a turn: the worker
// that ended it, while that one has a run of the session, otherwise the first that finds it:
//
//	ended ──this worker ended it, or the worker of the turn says no──► owned ──► running ──► returned ──► in the history
//	ended ──the worker of the turn says yes──► waits: asked again after each tick, so a worker that dies is noticed
//
// A turn waits for all turns that ended before it, on whichever worker their calls run.
type endCalls struct {
	running       map[events.TurnID]bool // the call runs; changed by the run's goroutine alone
	owned         map[events.TurnID]bool // this run makes the call, or has made it; guarded by the pool's lock
	returned      chan events.TurnID     // turns whose call returned
	returnedTurns map[events.TurnID]bool // the same turns; the history may lack it
	asked         map[events.TurnID]int  // tick at which another worker said that it makes the call
}

func newEndCalls() endCalls {
	return endCalls{
		running: make(map[events.TurnID]bool), owned: make(map[events.TurnID]bool), returned: make(chan events.TurnID, 16),
		returnedTurns: make(map[events.TurnID]bool), asked: make(map[events.TurnID]int),
	}
}

// withAnnounced inserts turn.announced behind an event that ends a turn, if a call to plugins is due.
func (r *run) withAnnounced(list []events.Event) []events.Event {
	for i := range list {
		p, ok := list[i].Payload.(*events.TurnCompleted)
		if !ok || p.End == events.EndFailed { // the effects of a failed turn do not count
			continue
		}
		t := r.state.Turn()
		due := r.stack.Stack != nil && r.stack.HasLifecycle()
		if r.stack.Stack == nil && t != nil && t.ID == list[i].Turn {
			due = t.HasHooks(events.PointAfterTurn) // as of the worker that claimed the turn
		}
		if due {
			return slices.Insert(slices.Clone(list), i+1, events.Of(list[i].Turn, &events.TurnAnnounced{Worker: r.p.cfg.ID}))
		}
	}
	return list
}

// startEndCalls calls the plugins about ended turns whose call no worker has made: about one turn after the other,
// in the order of the history, whichever worker does it.
func (r *run) startEndCalls(ctx context.Context) error {
	if len(r.batch.events) > 0 {
		return nil // plugins learn only of events in the log
	}
	r.ownEnds()
	for _, u := range r.state.Unnotified {
		switch {
		case r.endCalls.returnedTurns[u.Turn]:
			continue
		case len(r.endCalls.running) > 0 || r.isCalledElsewhere(ctx, u):
			return nil // the next turn's call starts when this one has returned
		}
		notifies := u.Worker != ""
		if notifies {
			key := bus.TrialKey{Session: r.session, Of: bus.TrialEnd, Turn: u.Turn}
			if err := r.attempt(ctx, key, nil, r.suspicious || u.Worker != r.p.cfg.ID); err != nil {
				return err
			}
			ready, err := r.canStartEndCall(ctx, u.Turn)
			if err != nil {
				return err
			}
			if notifies = ready == endCallReady; ready == endCallLater {
				return nil
			}
		}
		r.startEndCall(ctx, u, notifies)
	}
	return nil
}

// endCallStart is what becomes of a call to plugins about a turn's end.
type endCallStart int

const (
	endCallReady endCallStart = iota
	endCallLater              // the plugins cannot be built now
	endCallNever              // no worker can make the call
)

// ownEnds makes this run the one that calls plugins about the turns that this worker ended.
func (r *run) ownEnds() {
	for _, u := range r.state.Unnotified {
		if u.Worker == r.p.cfg.ID {
			r.own(u.Turn)
		}
	}
}

func (r *run) own(id events.TurnID) {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	r.endCalls.owned[id] = true
}

// ownsEndCallLocked reports whether this run calls plugins about a turn's end, or has done so: also of the turn that it
// runs, whose end may be in the log already.
func (r *run) ownsEndCallLocked(id events.TurnID) bool {
	return r.endCalls.owned[id] || r.claimed.turn == id
}

// isCalledElsewhere reports whether another worker calls plugins about a turn's end. It asks that worker once a tick.
func (r *run) isCalledElsewhere(ctx context.Context, u projector.UnnotifiedTurn) bool {
	r.p.mu.Lock()
	owned := r.endCalls.owned[u.Turn]
	r.p.mu.Unlock()
	if owned || u.Worker == "" {
		return false
	}
	if at, asked := r.endCalls.asked[u.Turn]; asked && at == r.ticks {
		return true
	}
	q := wake.PeerRequest{Session: r.session, Turn: u.Turn, Notifies: true, Class: r.class}
	if !r.p.cfg.Peers.Request(ctx, u.Worker, q) {
		return false
	}
	r.endCalls.asked[u.Turn] = r.ticks
	return true
}

// canStartEndCall builds the session's plugins. If no worker can, the call is not made, with a warning.
func (r *run) canStartEndCall(ctx context.Context, id events.TurnID) (endCallStart, error) {
	var why zap.Field
	switch {
	case r.trial.Exhausted() && r.trial.Key.Of == bus.TrialEnd:
		r.endTrial(ctx)
		why = zap.String("why", "the workers that called them died")
	case r.stack.Stack != nil:
		return endCallReady, nil
	case len(r.inflight) > 0:
		return endCallLater, nil // the plugins are rebuilt before the turn continues
	default:
		if err := r.openStack(ctx); err != nil || r.stack.Stack != nil {
			return endCallReady, err
		}
		if err := r.checkPatience(); err != nil {
			return endCallLater, err
		}
		why = zap.String("why", r.stack.issue.Message)
	}
	r.p.log.Warn("plugins are not notified of the end of a turn", zap.String("session", string(r.session)), zap.String("turn", string(id)), why)
	return endCallNever, nil
}

// startEndCall calls the plugins about an ended turn, unless notifies is false, and answers the parent's call that waits for the turn, in a
// goroutine of its own. The run does not end before it returns.
func (r *run) startEndCall(ctx context.Context, u projector.UnnotifiedTurn, notifies bool) {
	stack, state, release := r.stack.Stack, r.state.Clone(), r.p.cfg.Worker.HoldStack(r.session)
	r.own(u.Turn)
	r.endCalls.running[u.Turn] = true
	r.p.jobs.Go(func() { // waited for by the run, and by Pool.Stop
		defer release()
		if notifies {
			once, cancel := context.WithTimeout(ctx, wake.StopWait)
			r.p.callTurnEnd(once, stack, state, u.Turn)
			cancel()
		}
		for u.Answers != "" && ctx.Err() == nil {
			err := r.p.cfg.Worker.AnswerParent(ctx, state, u.Turn, u.Answers)
			if err == nil {
				break
			}
			r.p.warn(state.Session, err)
			delay.Sleep(ctx, answerAgain)
		}
		select {
		case r.endCalls.returned <- u.Turn:
		case <-ctx.Done(): // the call may have been cut off: the next worker repeats it
		}
	})
}

// answerAgain is the pause before a parent is answered again.
const answerAgain = time.Second

func (p *Pool) callTurnEnd(ctx context.Context, stack *plugin.Stack, state *projector.State, id events.TurnID) {
	if err := blob.FillState(ctx, p.cfg.Calls.Blobs, state); err != nil {
		p.warn(state.Session, err) // plugins are called anyway: the state has references in place of these bodies
	}
	stack.NotifyLifecycle(ctx, plugin.Lifecycle{
		Kind: plugin.TurnPersisted, Session: state.Session, Turn: id, State: state, Host: p.cfg.Worker.RuntimeHost(state.Session, nil, ""),
	})
}

// endCallReturned handles the end of a call.
func (r *run) endCallReturned(ctx context.Context, id events.TurnID) {
	if r.trial != nil && r.trial.Key.Of == bus.TrialEnd {
		r.endTrial(ctx)
	}
	r.endCalls.returnedTurns[id] = true
	delete(r.endCalls.running, id)
}

// toldEvents are the events which say that the calls about ended turns returned. They are appended with the claim
// of the next turn, or alone before the session rests.
func (r *run) toldEvents() []events.Event {
	var list []events.Event
	for _, u := range r.state.Unnotified {
		if r.endCalls.returnedTurns[u.Turn] {
			list = append(list, events.Of(u.Turn, &events.TurnTold{Worker: r.p.cfg.ID}))
		}
	}
	return list
}
