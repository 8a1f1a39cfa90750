package run

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/internal/wake"
)

var (
	// errRunEnded cancels effects that run when their run has ended, as by a panic.
	errRunEnded = errors.New("the run has ended")
	// errDropped ends a run whose wake another worker has, or a new wake replaced.
	errDropped = errors.New("the wake is another worker's")
	// errPoolStops ends a run whose pool stops. Its wake must reach another worker.
	errPoolStops = errors.New("handed over")
	// errElsewhere ends a run that this worker cannot do now, and another worker may.
	errElsewhere = errors.New("another worker may run it")
)

// elsewhereWait is the delay of a wake that this worker returned because of errElsewhere.
const elsewhereWait = time.Second

// lockedWait is the delay of a wake of a session whose key is not here.
const lockedWait = 5 * time.Second

// finish acknowledges or returns the wake of a run that ended. w is nil if the run had no wake.
func (p *Pool) finish(ctx context.Context, r *run, w *bus.Wake, err error) {
	log := p.log.With(zap.String("session", string(r.session)))
	ack, back := func() {}, func(time.Duration) {}
	if w != nil {
		ack = func() { _ = w.Ack() }
		back = func(d time.Duration) { _ = w.Nak(d) }
	}
	soon, waits := errors.AsType[wake.SoonError](err)
	delay := time.Duration(soon)
	switch {
	case err == nil, errors.Is(err, events.ErrNoSession): // which was erased, or never existed
		r.trial.Clear(ctx)
		ack()
		return
	case errors.Is(err, errDropped):
		r.trial.Clear(ctx)
		return
	case waits, errors.Is(err, errPoolStops), ctx.Err() != nil:
	case errors.Is(err, events.ErrLocked): // another worker may have the key; until then the work waits
		log.Warn("left to a node with the key of the session", zap.Error(err))
		delay = lockedWait
	case errors.Is(err, errElsewhere):
		log.Warn("left to another worker", zap.Error(err))
		delay = elsewhereWait
	case events.OfServers(err), errors.Is(err, bus.ErrFull): // a fault of the servers, not of the session
		log.Warn("run session", zap.Error(err))
		delay = time.Second
	default:
		p.failed(ctx, r, err, ack, back)
		return
	}
	r.trial.Withdraw(ctx)
	back(delay)
}

// failed counts an attempt that ended in an error of its own. At the limit, a session that could not be folded
// becomes a dead letter.
func (p *Pool) failed(ctx context.Context, r *run, err error, ack func(), back func(time.Duration)) {
	log := p.log.With(zap.String("session", string(r.session)))
	log.Warn("run session", zap.Error(err))
	wait, exhausted := time.Duration(0), errors.Is(err, wake.ErrUnfoldable)
	if !exhausted {
		key, running := r.attempted()
		r.trial, wait, exhausted = p.trials.Fail(ctx, r.trial, key, running, err)
		exhausted = exhausted && key.Of == bus.TrialFold
	}
	if !exhausted {
		back(wait)
		return
	}
	if err := p.trials.DeadLetter(ctx, r.trial); err != nil {
		log.Warn("keep dead letter", zap.Error(err))
		back(p.cfg.Retry.Base)
		return
	}
	r.trial.Clear(ctx)
	ack()
}
