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
	"github.com/lash-go/lash/session/memory"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/internal/wake"
)

// endCalls is the state of a run's calls to plugins about ended turns, and about changes of the configuration. The event turn.announced,
// which follows a turn's end, says that such a call is due; turn.told says that it returned. Where a call of the parent waits for the
// turn, the parent gets its result before turn.told. One worker makes the call of a turn: the worker
// that ended it, while that one has a run of the session, otherwise the first that finds it:
//
//	ended ──this worker ended it, or the worker of the turn says no──► owned ──► running ──► returned ──► in the history
//	ended ──the worker of the turn says yes──► waits: asked again after each tick, so a worker that dies is noticed
//
// A change says itself that it is announced, and session.told that the call returned; the first worker that finds it makes the call.
// A call waits for those of all that happened before, on whichever worker these run.
type endCalls struct {
	running  map[projector.NoticeKey]bool // the call runs; changed by the run's goroutine alone
	owned    map[projector.NoticeKey]bool // this run makes the call, or has made it; guarded by the pool's lock
	returned chan projector.NoticeKey     // whose call returned
	made     map[projector.NoticeKey]bool // the same; the history may lack it
	asked    map[events.TurnID]int        // tick at which another worker said that it makes the call
}

func newEndCalls() endCalls {
	return endCalls{
		running: make(map[projector.NoticeKey]bool), owned: make(map[projector.NoticeKey]bool), returned: make(chan projector.NoticeKey, 16),
		made: make(map[projector.NoticeKey]bool), asked: make(map[events.TurnID]int),
	}
}

// withAnnounced inserts turn.announced behind an event that ends a turn, if a call to plugins is due.
func (r *run) withAnnounced(list []events.Event) []events.Event {
	for i := range list {
		p, ok := list[i].Payload.(*events.TurnCompleted)
		if !ok || p.End == events.EndFailed { // the effects of a failed turn do not count
			continue
		}
		t := r.m.State.Turn()
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

// startEndCalls makes the calls that no worker has made: one after the other, in the order of the history, whichever worker does it.
func (r *run) startEndCalls(ctx context.Context) error {
	r.ownEnds()
	for _, n := range r.m.State.Unnotified {
		switch {
		case r.endCalls.made[n.Key()]:
			continue
		case len(r.endCalls.running) > 0 || r.isCalledElsewhere(ctx, n):
			return nil // the next call starts when this one has returned
		}
		notifies := n.ForPlugins()
		if notifies {
			key := bus.TrialKey{Session: r.session, Of: bus.TrialEnd, Turn: n.Turn}
			if err := r.attempt(ctx, key, nil, r.suspicious || n.Change == nil && n.Worker != r.p.cfg.ID); err != nil {
				return err
			}
			ready, err := r.canStartEndCall(ctx, n)
			if err != nil {
				return err
			}
			if notifies = ready == endCallReady; ready == endCallLater {
				return nil
			}
		}
		r.startEndCall(ctx, n, notifies)
	}
	return nil
}

// endCallStart is what becomes of a call to plugins.
type endCallStart int

const (
	endCallReady endCallStart = iota
	endCallLater              // the plugins cannot be built now
	endCallNever              // no worker can make the call
)

// ownEnds makes this run the one that calls plugins about the turns that this worker ended.
func (r *run) ownEnds() {
	for _, n := range r.m.State.Unnotified {
		if n.Worker == r.p.cfg.ID {
			r.own(n.Key())
		}
	}
}

func (r *run) own(key projector.NoticeKey) {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	r.endCalls.owned[key] = true
}

// ownsEndCallLocked reports whether this run calls plugins about a turn's end, or has done so: also of the turn that it
// runs, whose end may be in the log already.
func (r *run) ownsEndCallLocked(id events.TurnID) bool {
	return r.endCalls.owned[projector.NoticeKey{Turn: id}] || r.claimed.Turn == id
}

// isCalledElsewhere reports whether another worker calls plugins about a turn's end. It asks that worker once a tick.
func (r *run) isCalledElsewhere(ctx context.Context, n projector.Notice) bool {
	r.p.mu.Lock()
	owned := r.endCalls.owned[n.Key()]
	r.p.mu.Unlock()
	if owned || n.Worker == "" {
		return false
	}
	if at, asked := r.endCalls.asked[n.Turn]; asked && at == r.ticks {
		return true
	}
	q := wake.PeerRequest{Session: r.session, Turn: n.Turn, Notifies: true, Class: r.class}
	if !r.p.cfg.Peers.Request(ctx, n.Worker, q) {
		return false
	}
	r.endCalls.asked[n.Turn] = r.ticks
	return true
}

// canStartEndCall builds the session's plugins. If no worker can, the call is not made, with a warning.
func (r *run) canStartEndCall(ctx context.Context, n projector.Notice) (endCallStart, error) {
	var why zap.Field
	switch {
	case r.trial.Exhausted() && r.trial.Key.Of == bus.TrialEnd:
		r.endTrial(ctx)
		why = zap.String("why", "the workers that called them died")
	case r.stack.Stack != nil:
		return endCallReady, nil
	case len(r.m.Inflight) > 0:
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
	r.p.log.Warn("plugins are not notified of "+noticed(n), zap.String("session", string(r.session)), zap.String("turn", string(n.Turn)), why)
	return endCallNever, nil
}

func noticed(n projector.Notice) string {
	if n.Change != nil {
		return "a change of the configuration"
	}
	return "the end of a turn"
}

// startEndCall notifies the plugins, unless notifies is false, and answers the parent's call that waits for the turn, in a
// goroutine of its own. The run does not end before it returns. A hook that fails, or exceeds its time, was called; one that the end of
// the run cuts off was not: the next worker calls it again.
func (r *run) startEndCall(ctx context.Context, n projector.Notice, notifies bool) {
	stack, state, release := r.stack.Stack, r.m.State.Clone(), r.p.cfg.Worker.HoldStack(r.session)
	r.own(n.Key())
	r.endCalls.running[n.Key()] = true
	r.p.jobs.Go(func() { // waited for by the run, and by Pool.Stop
		defer release()
		account := r.p.cfg.Calls.Memory.Account(string(r.session), 0)
		defer account.Close()
		ctx := account.In(ctx)
		if notifies {
			r.p.notify(ctx, stack, state, n)
		}
		for n.Answers != "" && ctx.Err() == nil {
			err := r.p.cfg.Worker.AnswerParent(ctx, state, n.Turn, n.Answers)
			if err == nil {
				break
			}
			r.p.warn(state.Session, err)
			account.GiveBack()
			delay.Sleep(ctx, answerAgain)
		}
		if ctx.Err() == nil {
			r.endCalls.returned <- n.Key()
		}
	})
}

// answerAgain is the pause before a parent is answered again.
const answerAgain = time.Second

func (p *Pool) notify(ctx context.Context, stack *plugin.Stack, state *projector.State, n projector.Notice) {
	ctx, part := memory.Part(ctx)
	defer part.Close()
	if err := blob.FillState(ctx, p.cfg.Calls.Blobs, state); err != nil {
		p.warn(state.Session, err) // plugins are called anyway: the state has references in place of these bodies
	}
	e := plugin.Lifecycle{
		Kind: plugin.TurnPersisted, Session: state.Session, Turn: n.Turn, State: state, Host: p.cfg.Worker.RuntimeHost(state.Session, nil, ""),
	}
	if n.Change != nil {
		e.Kind = plugin.SessionConfigChanged
		e.Change = plugin.ConfigChange{Session: state.Session, Previous: n.Change.Previous, Current: n.Change.Current}
	}
	stack.NotifyLifecycle(ctx, e)
}

// endCallReturned handles the end of a call.
func (r *run) endCallReturned(ctx context.Context, key projector.NoticeKey) {
	if r.trial != nil && r.trial.Key.Of == bus.TrialEnd {
		r.endTrial(ctx)
	}
	r.endCalls.made[key] = true
	delete(r.endCalls.running, key)
}

// toldEvents are the events which say that calls returned. They are appended with the claim
// of the next turn, or alone before the session rests.
func (r *run) toldEvents() []events.Event {
	var list []events.Event
	for _, n := range r.m.State.Unnotified {
		switch {
		case !r.endCalls.made[n.Key()]:
		case n.Change != nil:
			list = append(list, events.Of("", &events.SessionTold{Of: n.Change.Seq, Worker: r.p.cfg.ID}))
		default:
			list = append(list, events.Of(n.Turn, &events.TurnTold{Worker: r.p.cfg.ID}))
		}
	}
	return list
}
