package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/projector"
)

// fairTurns is how many turns of one session a run does while others may wait for its place.
const fairTurns = 8

var (
	// errYielded is a run that made room for other sessions. Another command covers what is queued.
	errYielded = errors.New("made room for other sessions")
	// errHandedOver is a run whose worker stops. The job is to go on elsewhere.
	errHandedOver = errors.New("handed over")
)

// overdue reports whether the run has had its share while the worker is full.
func (r *run) overdue() bool {
	if r.turns < fairTurns || len(r.state.Queue) == 0 {
		return false
	}
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	return len(r.w.runs) >= r.w.cfg.Concurrency
}

// yield ends a run between two turns. A new command covers those that are
// queued: it stands behind all that wait, where a job that was given back
// would stand before. It is new each time, so that no earlier one's ack counts for it.
func (r *run) yield(ctx context.Context) error {
	if err := r.flush(ctx); err != nil {
		return err
	}
	for mail := r.w.takeMailOrEnd(r); len(mail) > 0; mail = r.w.takeMailOrEnd(r) {
		r.w.returnMail(r, mail)
		if err := r.readMail(ctx); err != nil {
			return err
		}
	}
	if err := r.w.host.Cover(ctx, r.job.Session, ulid.Make().String()); err != nil {
		return fmt.Errorf("make room for other sessions: %w", err)
	}
	return errYielded
}

// handOver ends a run with everything recorded that it came to.
func (r *run) handOver(ctx context.Context) error {
	if err := r.flush(ctx); err != nil {
		return err
	}
	return errHandedOver
}

// begun reports whether the history says of a call that it has begun, and not what it came to. Nobody else may run it.
func begun(t *projector.Turn) bool {
	return slices.ContainsFunc(t.Calls, func(c projector.Call) bool { return c.Begun && !c.Done && !c.Pended })
}
