package run

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/hint"
	"github.com/lash-go/lash/session/turn"
)

// endTransferred ends a run whose wake was transferred to another worker. If a new wake arrived meanwhile, the run continues
// and transfers that one too. It ends only when its calls about ended turns have returned and are recorded: without the
// run, another worker would repeat them.
func (r *run) endTransferred(ctx context.Context) (pace, error) {
	notified := r.toldEvents()
	r.p.mu.Lock()
	moved := r.wake != r.transferred
	ends := !moved && len(r.endCalls.running) == 0 && len(notified) == 0
	if !moved {
		r.wake = nil
	}
	if ends {
		r.p.endLocked(r)
	}
	r.p.mu.Unlock()
	switch {
	case ends:
		return paceContinue, errDropped
	case moved:
		return paceContinue, nil
	case len(notified) > 0:
		return paceContinue, r.record(ctx, notified)
	}
	return paceWait, nil
}

// yield ends a run between two turns and publishes a new wake, which is the last of the queue.
func (r *run) yield(ctx context.Context) error {
	if err := r.record(ctx, r.toldEvents()); err != nil {
		return err
	}
	r.closeStack()
	r.p.mu.Lock()
	r.p.endLocked(r)
	r.p.mu.Unlock()
	key := hint.TurnKey(r.state)
	if w := r.currentWake(); w != nil { // which the new one replaces
		key = w.WakeKey
	}
	if err := r.p.cfg.Bus.PublishWake(key, bus.WakeHint{}); err != nil {
		return err
	}
	return errDropped
}

// endForStop ends a run of a pool that stops.
func (r *run) endForStop(ctx context.Context) error {
	if err := r.record(ctx, r.toldEvents()); err != nil {
		return err
	}
	return errPoolStops
}

// release records that this worker gives up the running turn. The attempt then does not count as a failed one, and
// the next worker takes over without a request to this one.
func (r *run) release(ctx context.Context, t *projector.Turn) error {
	if err := r.record(ctx, append(r.toldEvents(), events.Of(t.ID, &events.TurnReleased{Worker: r.p.cfg.ID}))); err != nil {
		return err
	}
	r.setClaim(attempt{})
	return errPoolStops
}

// releaseWait limits the last append of a run that was cancelled.
const releaseWait = time.Second

// releaseLate is release for a run that was cancelled: its in-flight effects are lost, and another worker continues
// the turn. Without the event the attempt counts as a failed one. If another append came first, the session stays as
// it is.
func (r *run) releaseLate() {
	if r.state == nil {
		return
	}
	r.rollBack()
	t := r.state.Turn()
	if !r.isOurs(t) || t.Starts == 0 || turn.Parked(r.state) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseWait) // the context of the run has ended
	defer cancel()
	c := r.commit(r.state.Next(r.p.cfg.Bus.Millis()), []events.Event{events.Of(t.ID, &events.TurnReleased{Worker: r.p.cfg.ID})})
	_, err := r.p.cfg.Worker.AppendCommit(ctx, c, r.state, func(signed *events.Commit) (*projector.State, error) {
		err := r.state.Apply(events.Entry{Seq: r.state.Seq + 1, Commit: signed})
		return r.state.Clone(), err
	})
	if err != nil {
		r.p.log.Debug("release turn", zap.String("session", string(r.session)), zap.Error(err))
	}
}

// hasStartedCall reports whether the history has the start of a call in this process without its result. No other
// worker may run such a call.
func hasStartedCall(t *projector.Turn) bool {
	return slices.ContainsFunc(t.Calls, func(c projector.Call) bool { return c.Called && c.Holder == "" && !c.Done && !c.Pended })
}
