package session

import (
	"context"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/task"
)

// What workers ask of a host. Each names the claim that it acts on; where the
// history has another one by now, nothing is appended: [task.ErrTaken].

// ClaimTask appends a worker's claim of a task on top of the claim that it saw.
func (h *Host) ClaimTask(ctx context.Context, id events.SessionID, seen task.Claim, worker events.WorkerID) (projector.Task, error) {
	return h.decideTask(ctx, id, stamp{actor: h.actor, cause: string(seen.Task)}, seen.Task, func(s *projector.State) ([]events.Event, error) {
		return task.Start(s, seen, worker)
	})
}

// FinishTask ends a task on its runner's word.
func (h *Host) FinishTask(ctx context.Context, id events.SessionID, c task.Claim, state events.TaskState, summary string) error {
	return h.whileHeld(ctx, id, c, func(s *projector.State) []events.Event { return task.Complete(s, c.Task, state, clipText(summary)) })
}

// ProgressTaskAs records what a task's runner has to say.
func (h *Host) ProgressTaskAs(ctx context.Context, id events.SessionID, c task.Claim, message string) error {
	return h.whileHeld(ctx, id, c, func(s *projector.State) []events.Event { return task.Progress(s, c.Task, clipText(message)) })
}

// TransitionTaskAs moves a task to running or waiting on its runner's word.
func (h *Host) TransitionTaskAs(ctx context.Context, id events.SessionID, c task.Claim, to events.TaskState) error {
	return h.whileHeld(ctx, id, c, func(s *projector.State) []events.Event { return task.Transition(s, c.Task, to) })
}

func (h *Host) whileHeld(ctx context.Context, id events.SessionID, c task.Claim, d func(*projector.State) []events.Event) error {
	return h.decide(ctx, id, string(c.Task), func(s *projector.State) ([]events.Event, error) {
		return task.While(s, c, func() []events.Event { return d(s) })
	})
}

// CancelTaskAs cancels a task whose worker is gone, and which was to stop.
func (h *Host) CancelTaskAs(ctx context.Context, id events.SessionID, c task.Claim) error {
	return h.whileHeld(ctx, id, c, func(s *projector.State) []events.Event { return task.Cancel(s, c.Task, hostReason) })
}

// AbandonTask ends a task whose worker is gone as failed, and disarms its monitor.
func (h *Host) AbandonTask(ctx context.Context, id events.SessionID, c task.Claim, why string) error {
	return h.decide(ctx, id, string(c.Task), func(s *projector.State) ([]events.Event, error) {
		return task.Abandon(s, c, clipText(why))
	})
}

// ReportMonitor records lines that came together, in one commit.
func (h *Host) ReportMonitor(ctx context.Context, id events.SessionID, c task.Claim, lines []task.Line) error {
	return h.decide(ctx, id, string(c.Task), func(s *projector.State) ([]events.Event, error) { return task.Report(s, c, lines) })
}

// EndMonitor records how a monitor's command ended, and ends its task.
func (h *Host) EndMonitor(ctx context.Context, id events.SessionID, c task.Claim, end events.MonitorEnded) error {
	end.Error = clipText(end.Error)
	return h.decide(ctx, id, string(c.Task), func(s *projector.State) ([]events.Event, error) {
		return task.EndMonitor(s, c, end)
	})
}
