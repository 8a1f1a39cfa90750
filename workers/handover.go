package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
)

// fairTurns is how many turns of one session a run does while others may wait for its place.
const fairTurns = 8

var (
	// errCovered is a run that ends between two turns: another command covers what is queued.
	errCovered = errors.New("another command covers what is queued")
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
// would stand before.
func (r *run) yield(ctx context.Context) error {
	alone := r.w.waiting() == 0
	if err := r.end(ctx); err != nil {
		return err
	}
	if alone {
		r.w.askRoom(ctx)
	}
	return r.cover(ctx)
}

// coverAnew ends the run in favour of a command that nobody had before.
func (r *run) coverAnew(ctx context.Context) error {
	if err := r.end(ctx); err != nil {
		return err
	}
	return r.cover(ctx)
}

// end ends the run before its job: what comes for the session then begins another one.
func (r *run) end(ctx context.Context) error {
	if err := r.flush(ctx); err != nil {
		return err
	}
	r.ending = true
	for mail := r.takeMailOrEnd(); len(mail) > 0; mail = r.takeMailOrEnd() {
		r.w.returnMail(r, mail)
		if err := r.readMail(ctx); err != nil {
			return err
		}
	}
	return nil
}

// cover leaves what is queued to a new command. It is new each time, so that no
// earlier one's ack counts for it. The job is over, but for one that wakes: what
// it is about may be left when the queued turns have ended.
func (r *run) cover(ctx context.Context) error {
	if err := r.w.host.Cover(ctx, r.job.Session, ulid.Make().String()); err != nil {
		return fmt.Errorf("cover session %s: %w", r.job.Session, err)
	}
	if r.cmd.Wake {
		return errLater
	}
	return errCovered
}

// askRoom lets in a session that waits in another worker's room, where nothing
// does here: without it the slot would go to the session that just made place,
// again and again, while the others wait for that worker's slots alone.
func (w *Worker) askRoom(ctx context.Context) {
	once, cancel := context.WithTimeout(ctx, askRoomWait)
	defer cancel()
	if err := w.cfg.Bus.AskRoom(once, bus.ClassTurn); err != nil && !errors.Is(err, bus.ErrNotFound) {
		w.log.Debug("ask for what waits elsewhere", zap.Error(err)) // it will have given it back by the next time
	}
}

// askRoomWait bounds what a worker that does not answer costs eight turns of others.
const askRoomWait = bus.AckWait / 4

// Bounds of what one commit enrolls.
const (
	enrollTurns = 64
	enrollBytes = 256 << 10 // of commands
)

// enroll puts the turns that commands ask for in the session's order, many in
// one commit, so that a flood is soon out of the queue. It acks those commands
// where a running turn's message covers them, or the run's own, and returns the others in their order.
func (r *run) enroll(ctx context.Context, mail []*bus.Job) ([]*bus.Job, error) {
	for len(mail) > 1 {
		if err := r.flush(ctx); err != nil {
			return mail, err
		}
		asked, err := r.gatherRequests(ctx, mail)
		if err == nil {
			err = r.flush(ctx)
		}
		covered := r.g.claimed || r.state.Turn() != nil
		if err != nil || len(asked) == 0 || !covered {
			return mail, err
		}
		mail = slices.DeleteFunc(mail, func(j *bus.Job) bool {
			known, lookErr := r.known(events.TurnID(j.ID))
			err = errors.Join(err, lookErr)
			if known = known && slices.Contains(asked, j) && !r.underWay(j); known { // else the session moved meanwhile: once more
				r.w.settle(ctx, j, nil)
			}
			return known
		})
		if err != nil {
			return mail, err
		}
	}
	return mail, nil
}

// gatherRequests gathers the turns of the first commands, as many as fit in a
// commit, and returns those commands, with those whose turn is known.
func (r *run) gatherRequests(ctx context.Context, mail []*bus.Job) (asked []*bus.Job, err error) {
	bytes := 0
	for _, j := range mail {
		cmd, err := session.DecodeCommand(j.Body)
		if err != nil || !cmd.AsksForTurn() || cmd.Wake || j.ID == r.job.ID || r.underWay(j) {
			continue
		}
		if cmd.Busy != events.BusyEnqueue {
			break // it has to do with the turns before it
		}
		if bytes += len(j.Body); len(asked) == enrollTurns || len(asked) > 0 && bytes > enrollBytes {
			break
		}
		known, err := r.known(events.TurnID(j.ID))
		if err == nil && !known {
			err = r.gather(ctx, nil, r.requested(events.TurnID(j.ID), &cmd))
		}
		if err != nil {
			return nil, err
		}
		asked = append(asked, j)
	}
	return asked, nil
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
