package workers

import (
	"context"
	"errors"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/turn"
)

// answer performs a command that is about a running turn. A parked turn is
// taken over with it, in one commit; one that is not has a worker, which is told.
func (r *run) answer(ctx context.Context, owes turn.Owes) (done bool, err error) {
	t := r.state.Turn()
	parked, worker := owes.Parked(), t.Worker
	if parked {
		if r.w.draining.Load() {
			return false, r.handOver(ctx)
		}
		if err := r.openStack(ctx); err != nil {
			return false, err
		}
		claim := r.claim(ctx, t.Input)
		claim.Beside = r.unsaved()
		if err := r.take(ctx, claim); err != nil {
			return false, err
		}
	}
	err = r.take(ctx, r.cmd.Answering())
	if errors.Is(err, turn.ErrStale) {
		r.forsake(r.g.inputs...)
		r.rollBack() // somebody answered before
		return true, nil
	}
	if err != nil {
		return false, err
	}
	r.g.claimed = parked
	if err := r.flush(ctx); err != nil || parked {
		return false, err
	}
	_ = r.w.cfg.Bus.Poke(worker, r.job.Session)
	return false, nil // the next look finds it answered, or answers anew after a conflict
}

// answerMail performs a command that is about the turn that the run holds. A
// run that holds it no longer, and ends over that, leaves it to others.
func (r *run) answerMail(ctx context.Context, j *bus.Job, cmd *session.Command) error {
	if err := r.catchUp(ctx); err != nil {
		return err
	}
	if t := r.state.Turn(); t == nil || t.Worker != r.w.cfg.ID {
		return j.GiveBack(0)
	}
	err := r.step(ctx, cmd.Answering())
	if err == nil || errors.Is(err, turn.ErrStale) {
		r.w.settle(ctx, j, nil)
		return nil
	}
	return err
}
