package run

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/hint"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/internal/wake"
)

// askWorker asks the worker of a turn whether it runs the turn. If it does, that worker owns the wake from now on, and the
// run ends. If a new wake arrived meanwhile, the run continues and transfers that one too. It ends only when its calls about ended
// turns have returned and are recorded: without the run, another worker would repeat them.
func (r *run) askWorker(ctx context.Context, t *projector.Turn) error {
	r.p.mu.Lock()
	r.transferred = r.wake
	r.p.mu.Unlock()
	q := wake.PeerRequest{Session: r.session, Turn: t.ID, Attempt: t.Attempt, Class: r.class}
	if r.transferred != nil {
		q.Class, q.Handle, q.Due, q.Repair = r.transferred.Class, r.transferred.Handle(), r.transferred.Due, r.transferred.Repair
	}
	if !r.p.cfg.Peers.Request(ctx, t.Worker, q) {
		r.m.Unclaimed()
		return nil
	}
	told := r.toldEvents()
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if r.wake != r.transferred {
		return nil // the machine asks again
	}
	r.wake = nil
	switch {
	case len(told) > 0:
		r.m.Append(told)
	case len(r.endCalls.running) > 0:
		r.m.Later()
	default:
		r.p.endLocked(r)
		return errDropped
	}
	return nil
}

// yield ends a run between two turns and publishes a new wake, which is the last of the queue.
func (r *run) yield() error {
	r.closeStack()
	r.p.mu.Lock()
	r.p.endLocked(r)
	r.p.mu.Unlock()
	key := hint.TurnKey(r.m.State)
	if w := r.currentWake(); w != nil { // which the new one replaces
		key = w.WakeKey
	}
	if err := r.p.cfg.Bus.PublishWake(key, bus.WakeHint{}); err != nil {
		return err
	}
	return errDropped
}

// releaseWait limits the last append of a run that was cancelled.
const releaseWait = time.Second

// releaseLate records that a run which was cancelled gives its turn up: its in-flight effects are lost, and another worker continues
// the turn. Without the event the attempt counts as a failed one. If another append came first, the session stays as
// it is.
func (r *run) releaseLate() {
	if r.m.State == nil {
		return
	}
	r.m.RollBack()
	t := r.m.State.Turn()
	if !r.m.IsOurs(t) || t.Starts == 0 || turn.Parked(r.m.State) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseWait) // the context of the run has ended
	defer cancel()
	c := r.commit(r.m.State.Next(r.p.cfg.Bus.Millis()), []events.Event{events.Of(t.ID, &events.TurnReleased{Worker: r.p.cfg.ID})})
	_, err := r.p.cfg.Worker.AppendCommit(ctx, c, r.m.State, func(signed *events.Commit) (*projector.State, error) {
		err := r.m.State.Apply(events.Entry{Seq: r.m.State.Seq + 1, Commit: signed})
		return r.m.State.Clone(), err
	})
	if err != nil {
		r.p.log.Debug("release turn", zap.String("session", string(r.session)), zap.Error(err))
	}
}
