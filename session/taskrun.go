package session

import (
	"context"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/task"
)

// Requests of workers. Each names the claim that it acts on. Where the history has a different claim, it appends
// nothing: api.ErrTaskTaken.

// ClaimTask appends a worker's claim of a task after the claim that the worker read.
func (w Worker) ClaimTask(ctx context.Context, id events.SessionID, seen task.Claim, worker events.WorkerID) (projector.Task, error) {
	ctx = w.as(ctx)
	return w.Host.decideTask(ctx, id, w.Host.ownMeta(ctx, string(seen.Task)), seen.Task, func(s *projector.State) ([]events.Event, error) {
		return task.ClaimFor(s, seen, worker)
	})
}

// EndClaimedTask records the end of a task that its runner reports.
func (w Worker) EndClaimedTask(ctx context.Context, id events.SessionID, c task.Claim, state events.TaskState, summary string) error {
	return w.decideWithClaim(ctx, id, c, func(s *projector.State) []events.Event { return task.End(s, c.Task, state, clipText(summary)) })
}

// ProgressClaimedTask records a progress message of a task's runner.
func (w Worker) ProgressClaimedTask(ctx context.Context, id events.SessionID, c task.Claim, message string) error {
	return w.decideWithClaim(ctx, id, c, func(s *projector.State) []events.Event { return task.Progress(s, c.Task, clipText(message)) })
}

// TransitionClaimedTask moves a task to running or waiting, as its runner reports.
func (w Worker) TransitionClaimedTask(ctx context.Context, id events.SessionID, c task.Claim, to events.TaskState) error {
	return w.decideWithClaim(ctx, id, c, func(s *projector.State) []events.Event { return task.Transition(s, c.Task, to) })
}

func (w Worker) decideWithClaim(ctx context.Context, id events.SessionID, c task.Claim, d func(*projector.State) []events.Event) error {
	return w.decide(ctx, id, string(c.Task), func(s *projector.State) ([]events.Event, error) {
		return task.While(s, c, func() []events.Event { return d(s) })
	})
}

// CancelClaimedTask cancels a task with a requested cancel whose worker is gone.
func (w Worker) CancelClaimedTask(ctx context.Context, id events.SessionID, c task.Claim) error {
	return w.decideWithClaim(ctx, id, c, func(s *projector.State) []events.Event { return task.Cancel(s, c.Task, hostReason) })
}

// AbandonTask ends a task whose worker is gone as failed, and disarms its monitor.
func (w Worker) AbandonTask(ctx context.Context, id events.SessionID, c task.Claim, why string) error {
	return w.decide(ctx, id, string(c.Task), func(s *projector.State) ([]events.Event, error) {
		return task.Abandon(s, c, clipText(why))
	})
}

// ReportMonitor records one batch of lines in one commit.
func (w Worker) ReportMonitor(ctx context.Context, id events.SessionID, c task.Claim, lines []task.Line) error {
	return w.decide(ctx, id, string(c.Task), func(s *projector.State) ([]events.Event, error) { return task.Report(s, c, lines) })
}

// EndMonitor records how a monitor's command ended, and ends its task.
func (w Worker) EndMonitor(ctx context.Context, id events.SessionID, c task.Claim, end events.MonitorEnded) error {
	end.Error = clipText(end.Error)
	return w.decide(ctx, id, string(c.Task), func(s *projector.State) ([]events.Event, error) {
		return task.EndMonitor(s, c, end)
	})
}
