package run

import (
	"context"
	"sync"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/workers/internal/call"
)

// branchOff creates the session in which a waiting turn continues, and then ends the turn here. The history says that
// the turn branches, so a worker that finds it waiting repeats all steps, whatever an earlier worker completed. If
// the session cannot be created, the waiting turn fails and the running turn continues.
func (r *run) branchOff(ctx context.Context, q projector.QueuedTurn) error {
	branch, err := r.createBranch(ctx, q)
	end := events.Payload(&events.TurnDiverted{End: events.EndBranched, By: q.Behind, Session: branch})
	switch {
	case undecided(ctx, err) && len(r.m.Inflight) > 0 && ctx.Err() == nil:
		r.m.Later()
		return nil
	case undecided(ctx, err):
		return err
	case err != nil:
		end = &events.TurnCompleted{End: events.EndFailed, Issue: call.IssueOf("runtime", "branch_failed", err)}
	}
	r.m.Append([]events.Event{events.Of(q.ID, end)})
	return nil
}

// undecided reports whether an error leaves open if the session was created.
func undecided(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || events.OfServers(err))
}

// createBranch keeps the run's wake alive while the host creates the session, which reads the history.
func (r *run) createBranch(ctx context.Context, q projector.QueuedTurn) (events.SessionID, error) {
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
				r.reportProgress()
			}
		}
	})
	defer keeper.Wait()
	defer close(done)
	return r.p.cfg.Worker.ContinueInBranch(ctx, r.session, q)
}
