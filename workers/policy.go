package workers

import (
	"context"
	"sync"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/turn"
)

// place records the turn of a command where others run or wait: its request,
// and what its policy decides, in one guarded append, so that a death leaves
// it undone or done. After a conflict nothing is recorded: whoever asked looks again.
func (r *run) place(ctx context.Context, id events.TurnID, cmd *session.Command) error {
	if err := r.record(ctx, nil, r.requested(id, cmd)); err != nil {
		return err
	}
	if t := r.state.Turn(); cmd.Busy == events.BusyInterrupt && t != nil && t.Cancelled && t.Worker != r.w.cfg.ID {
		_ = r.w.cfg.Bus.Poke(t.Worker, r.job.Session)
	}
	return nil
}

// branching is the waiting turn that is to go on elsewhere, nil where there is
// none. One that could not go just now leaves what flies alone until the next tick.
func (r *run) branching() *projector.QueuedTurn {
	if r.branchLater && len(r.flights) > 0 && r.state.Turn() != nil {
		return nil
	}
	return turn.Branching(r.state)
}

// branchOff lets a waiting turn go on in a session of its own, and then ends it
// here. That it goes there is in the history, so whoever finds it waiting does
// this, from its beginning, whatever another one did of it. Where no such
// session can be, the turn fails: it is no reason to end the one that runs.
func (r *run) branchOff(ctx context.Context, q projector.QueuedTurn) error {
	branch, err := r.branch(ctx, q)
	if undecided(ctx, err) {
		if r.branchLater = len(r.flights) > 0 && ctx.Err() == nil; r.branchLater {
			return nil
		}
		return err
	}
	end := events.Payload(&events.TurnDiverted{End: events.EndBranched, By: q.Behind, Session: branch})
	if err != nil {
		end, err = &events.TurnCompleted{End: events.EndFailed, Issue: issueOf("runtime", "branch_failed", err)}, nil
	}
	for err == nil {
		if waits := turn.Branching(r.state); waits == nil || waits.ID != q.ID {
			return nil
		}
		err = r.record(ctx, nil, []events.Event{events.Of(q.ID, end)})
	}
	return err
}

// branch keeps the run's message while the session is made, for which the history is read.
func (r *run) branch(ctx context.Context, q projector.QueuedTurn) (events.SessionID, error) {
	done := make(chan struct{})
	var keeper sync.WaitGroup
	keeper.Go(func() {
		progress := time.NewTicker(bus.AckWait / 3)
		defer progress.Stop()
		for {
			select {
			case <-done:
				return
			case <-progress.C:
				_ = r.job.Progress()
			}
		}
	})
	defer keeper.Wait()
	defer close(done)
	return r.w.host.Branch(ctx, r.job.Session, q)
}
