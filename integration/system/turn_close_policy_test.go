package system

import (
	"context"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
)

// TestCloseOfSessionWithTasks closes a session from another process while a node runs a task of it. The task's
// policy decides: the task continues, is cancelled, or becomes the parent's.
func TestCloseOfSessionWithTasks(t *testing.T) {
	t.Parallel()
	const parent, child = events.SessionID("parent"), events.SessionID("child")
	for name, c := range map[string]struct {
		policy events.ClosePolicy
		before func(b *harness.System) // the session closes
		where  events.SessionID        // the task ends
		end    events.TaskState        // it comes to
		source events.SessionID        // it went there from the session; empty: it did not
	}{
		"keep":               {events.CloseKeep, nil, child, events.TaskCompleted, ""},
		"cancel":             {events.CloseCancel, nil, child, events.TaskCancelled, ""},
		"transfer":           {events.CloseTransfer, nil, parent, events.TaskCompleted, parent},
		"transfer_to_no_one": {events.CloseTransfer, func(b *harness.System) { runtest.WantError(b.T, "close", b.CloseSession(b.Ctx, parent, "first"), nil) }, child, events.TaskCancelled, ""},
		"transfer_to_its_id": {events.CloseTransfer, func(b *harness.System) { register(b, parent, "k") }, child, events.TaskCancelled, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := harness.StartIdle(t)
			started, stopped, free := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
			b.StartTasks(bustest.Open(t, b.Server), map[string]workers.TaskFunc{"stay": func(ctx context.Context, _ *workers.RunningTask) (string, error) {
				started <- struct{}{}
				select {
				case <-ctx.Done():
					close(stopped)
				case <-free:
				}
				return "done", context.Cause(ctx)
			}})
			b.Open(api.CreateRequest{ID: parent})
			b.Open(api.CreateRequest{ID: child, Parent: parent})
			_, err := b.RegisterTask(b.Ctx, child, api.TaskRequest{ID: "k", Runner: "stay", Close: c.policy})
			runtest.WantError(t, "register", err, nil)
			harness.Receive(b, "the task", started)
			if c.before != nil {
				c.before(b)
			}
			runtest.WantError(t, "close", b.OtherHost().CloseSession(b.Ctx, child, "over"), nil)
			runtest.Equal(t, "status", b.StateOf(child).Status, projector.StatusClosed)
			if c.end == events.TaskCancelled {
				b.Wait("the task's context", stopped)
			} else {
				close(free)
			}
			b.AwaitState(c.where, "the task's end", func(s *projector.State) bool {
				k, ok := s.Task("k")
				return ok && k.State == c.end
			})
			k, ok := b.StateOf(child).Task("k")
			runtest.Equal(t, "the session's record", ok, true)
			runtest.Equal(t, "went to", k.To, c.source)
		})
	}
}

// register registers a task that a program outside the fleet runs.
func register(b *harness.System, id events.SessionID, name events.TaskID) {
	b.T.Helper()
	_, err := b.RegisterTask(b.Ctx, id, api.TaskRequest{ID: name})
	runtest.WantError(b.T, "register", err, nil)
}

// TestExternalTaskEndsByItsProgram cancels a task that only its own program may end. The task has a stop request, and runs until
// the program reports its end, although its session is closed meanwhile.
func TestExternalTaskEndsByItsProgram(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	_, err := b.RegisterTask(b.Ctx, id, api.TaskRequest{ID: "k", Cancel: events.CancelExternal, Close: events.CloseCancel})
	runtest.WantError(t, "register", err, nil)
	list, err := b.OtherHost().Worker().RuntimeHost(id, nil, "").CancelTasksExcept(b.Ctx, id, nil)
	runtest.WantError(t, "cancel all", err, nil)
	runtest.Equal(t, "cancelled", len(list), 1)
	runtest.Equal(t, "state", list[0].State, events.TaskCancelling)
	got, err := b.CancelTask(b.Ctx, id, "k")
	runtest.WantError(t, "cancel", err, nil)
	runtest.Equal(t, "state", got.State, events.TaskCancelling)
	runtest.WantError(t, "close", b.CloseSession(b.Ctx, id, "over"), nil)
	runtest.Equal(t, "state in the closed session", b.ListedTask(id, "k").State, events.TaskCancelling)
	got, err = b.EndOwnTask(b.Ctx, id, "k", events.TaskCancelled, "stopped half way")
	runtest.WantError(t, "end", err, nil)
	runtest.Equal(t, "summary", got.Summary, "stopped half way")
}
