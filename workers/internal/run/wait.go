package run

import (
	"context"
	"errors"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/internal/wake"
)

// wait waits for one input of the machine.
func (r *run) wait(ctx context.Context, progress <-chan time.Time) error {
	var until <-chan time.Time
	if !r.until.IsZero() {
		timer := time.NewTimer(time.Until(r.until))
		defer timer.Stop()
		until = timer.C
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case c := <-r.results:
		r.receive(c)
	case key := <-r.endCalls.returned:
		r.endCallReturned(ctx, key)
	case f := <-r.recordRequests:
		r.handleRecordRequest(f)
	case <-until:
	case <-r.signals:
	case <-progress:
		r.tick()
	}
	return nil
}

// receive receives a result, and those that are available at the same time.
func (r *run) receive(c effectResult) {
	for {
		r.m.Result(c.effect, c.in)
		select {
		case c = <-r.results:
		default:
			return
		}
	}
}

// tick repeats what may have been lost: the progress of the wake, a notification, and the timer of a time that has
// passed and that no server reported: a timer that is stored while the one before fires can go with it.
func (r *run) tick() {
	r.ticks++
	r.m.Tick()
	r.reportProgress()
	r.markDirty()
	if due := turn.Due(r.m.State); due > r.facts().Due && due <= r.p.cfg.Bus.Millis() {
		_ = r.p.cfg.Bus.SetTimer(r.session, due)
	}
}

// markDirty marks the session for projectors, if the run has appended since the last call.
func (r *run) markDirty() {
	if r.unmarked {
		_ = r.p.cfg.Bus.MarkDirty(r.session)
		r.unmarked = false
	}
}

// reportProgress reports progress of the run's wake, so that the queue does not deliver it again.
func (r *run) reportProgress() {
	if w := r.currentWake(); w != nil {
		_ = w.Progress()
	}
}

// currentWake is the run's wake; nil before the first.
func (r *run) currentWake() *bus.Wake {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.wake
}

// readLog folds the events of others. A log that does not answer is read again at the next tick, or soon if an effect waits for its
// record.
func (r *run) readLog(ctx context.Context) error {
	before := r.m.State.Seq
	err := follow.Sync(ctx, r.p.cfg.Bus.Log(), r.p.cfg.Bus, r.m.State)
	now := time.Now()
	if r.m.State.Seq != before && r.stack.Stack != nil {
		err = errors.Join(err, r.openStack(ctx))
	}
	switch {
	case err == nil:
		r.m.Synced(now)
	case ctx.Err() == nil && errors.Is(err, events.ErrOutcomeUnknown):
		r.m.Unanswered()
		if r.recording != nil {
			r.reportProgress()
			delay.Sleep(ctx, wake.WatchEvery)
		}
	default:
		return err
	}
	return nil
}
