package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/internal/wake"
)

// wait waits for one event of the run and handles it.
func (r *run) wait(ctx context.Context, progress <-chan time.Time) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case c := <-r.results:
		return r.handleResult(ctx, c)
	case key := <-r.endCalls.returned:
		r.endCallReturned(ctx, key)
		return nil
	case f := <-r.recordRequests:
		return r.handleRecordRequest(ctx, f)
	case <-r.batch.timer():
		return r.flush(ctx)
	case <-r.signals:
		if !r.logEnd.moved.Load() {
			return nil
		}
		return r.readLog(ctx)
	case <-progress:
		return r.tick(ctx)
	}
}

// tick repeats what may have been lost: the progress of the wake, a notification, and the timer of a time that has
// passed and that no server reported: a timer that is stored while the one before fires can go with it.
func (r *run) tick(ctx context.Context) error {
	r.reportProgress()
	r.markDirty()
	r.branchLater = false
	if r.ticks++; r.ticks%readLogTicks != 0 && !r.logEnd.moved.Load() {
		return nil
	}
	if due := turn.Due(r.state); due > r.now() && due <= r.p.cfg.Bus.Millis() {
		_ = r.p.cfg.Bus.SetTimer(r.session, due)
	}
	return r.readLog(ctx)
}

// markDirty marks the session for projectors, if the run has appended since the last call.
func (r *run) markDirty() {
	if r.unmarked {
		_ = r.p.cfg.Bus.MarkDirty(r.session)
		r.unmarked = false
	}
}

// readLogTicks is the number of ticks between two reads of the log. A tick is a third of [bus.AckWait].
const readLogTicks = 4

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

// catchUp folds the events of others. Where the history was replaced, as after lost commits were accepted, the run's turn is superseded.
func (r *run) catchUp(ctx context.Context) error {
	if len(r.batch.events) > 0 {
		return r.flush(ctx) // a conflict of the append shows them
	}
	before, resets, q := r.state.Seq, r.state.Resets(), r.logEnd.request()
	err := follow.Sync(ctx, r.p.cfg.Bus.Log(), r.p.cfg.Bus, r.state)
	now := time.Now()
	if err == nil && r.state.Resets() != resets {
		r.wokenSeq = 0 // of the earlier history
		return fmt.Errorf("session %s, whose history was replaced: %w", r.session, wake.ErrSuperseded)
	}
	if r.state.Seq != before && r.stack.Stack != nil {
		err = errors.Join(err, r.openStack(ctx))
	}
	switch {
	case err == nil:
		r.logEnd.confirmRead(q, now)
	case ctx.Err() == nil && errors.Is(err, events.ErrOutcomeUnknown):
		r.logEnd.distrust()
		err = fmt.Errorf("%w: %w", errUnanswered, err)
	}
	return err
}

// errUnanswered is a read of the log that may be retried: servers that elect a leader do not respond, and effects
// must not end because of that.
var errUnanswered = errors.New("the log does not answer")

// readLog is catchUp, retried at the next tick if the log does not respond.
func (r *run) readLog(ctx context.Context) error {
	r.logEnd.moved.Store(false)
	err := r.catchUp(ctx)
	if errors.Is(err, errUnanswered) {
		r.logEnd.moved.Store(true)
		return nil
	}
	return err
}
