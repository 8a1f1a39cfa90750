package workers

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
)

// goOn takes up the next job of the same session, or ends the run.
func (r *run) goOn(ctx context.Context) (over bool) {
	for {
		mail := r.takeMailOrEnd()
		if len(mail) == 0 {
			return true
		}
		cmd, err := session.DecodeCommand(mail[0].Body)
		r.w.returnMail(r, mail[1:])
		if err != nil {
			r.w.settle(ctx, mail[0], fmt.Errorf("%w: %w", errRefused, err))
			continue
		}
		r.w.settle(ctx, r.job, nil)
		r.job, r.cmd, r.g.claimed, r.behind = mail[0], cmd, false, !cmd.AsksForTurn()
		return false
	}
}

// takeMailOrEnd gives up the plugins before the run ends: the session's next run on this worker has them then.
func (r *run) takeMailOrEnd() []*bus.Job {
	if !r.w.hasMail(r) {
		r.closeStack() // who goes on opens it again
	}
	return r.w.takeMailOrEnd(r)
}

// readMail puts the turns of jobs that came meanwhile in the session's order.
func (r *run) readMail(ctx context.Context) error {
	mail, err := r.enroll(ctx, r.w.takeMail(r))
	for len(mail) > 0 && err == nil {
		if err = r.queue(ctx, mail[0]); err == nil {
			mail = mail[1:]
		}
	}
	for _, j := range mail {
		_ = j.GiveBack(0)
	}
	return err
}

// queue records a turn behind the running one and acks its job: the run's own
// message covers it. A second delivery of that message is dropped, as the
// first one's acks count for it.
func (r *run) queue(ctx context.Context, j *bus.Job) error {
	if j.ID == r.job.ID {
		return nil
	}
	if r.underWay(j) { // another worker's turn, by now
		if r.late(ctx, j, r.state.Turn()) {
			return nil
		}
		return j.GiveBack(lookEvery)
	}
	cmd, err := session.DecodeCommand(j.Body)
	if err != nil {
		r.w.settle(ctx, j, fmt.Errorf("%w: %w", errRefused, err))
		return nil
	}
	switch {
	case cmd.Cover:
		return r.coverMail(ctx, j)
	case !cmd.AsksForTurn():
		return r.answerMail(ctx, j, &cmd)
	case cmd.Wake:
		return j.GiveBack(later(j)) // the running turn may take its inputs
	}
	for {
		known, err := r.known(events.TurnID(j.ID))
		if err != nil {
			return err
		}
		if known {
			if t := r.state.Turn(); t != nil && t.Worker != r.w.cfg.ID {
				return j.GiveBack(0) // the message of this run covers nothing any more
			}
			r.w.settle(ctx, j, nil)
			return nil
		}
		if err := r.flush(ctx); err != nil {
			return err
		}
		if err := r.place(ctx, events.TurnID(j.ID), &cmd); err != nil {
			return err
		}
	}
}

// coverMail acks a command that covers what is queued, where the run will look
// for that at its end, or ends with a new one. A run that was quiet may have lost its turn.
func (r *run) coverMail(ctx context.Context, j *bus.Job) error {
	if !r.ending {
		if err := r.catchUp(ctx); err != nil {
			return err
		}
		if t := r.state.Turn(); t == nil || t.Worker != r.w.cfg.ID {
			return j.GiveBack(0)
		}
	}
	r.w.settle(ctx, j, nil)
	return nil
}

// underWay reports whether a job's message is the one that covers the running
// turn, and what is queued behind it. It comes again where that turn's worker
// is gone, and must not be acked for being known: whoever has it takes the turn over.
func (r *run) underWay(j *bus.Job) bool {
	t := r.state.Turn()
	return t != nil && string(t.Job) == j.ID
}
