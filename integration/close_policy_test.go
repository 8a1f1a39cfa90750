package integration

import (
	"context"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
)

// TestCloseOfSessionWithTasks closes a session from another process while a
// node runs a task of it. The task's policy says whether it goes on, is cancelled, or becomes the parent's.
func TestCloseOfSessionWithTasks(t *testing.T) {
	t.Parallel()
	const parent, child = events.SessionID("parent"), events.SessionID("child")
	for name, c := range map[string]struct {
		policy events.ClosePolicy
		before func(b *bundle)  // the session closes
		where  events.SessionID // the task ends
		end    events.TaskState // it comes to
		source events.SessionID // it went there from the session; empty: it did not
	}{
		"keep":               {events.CloseKeep, nil, child, events.TaskCompleted, ""},
		"cancel":             {events.CloseCancel, nil, child, events.TaskCancelled, ""},
		"transfer":           {events.CloseTransfer, nil, parent, events.TaskCompleted, parent},
		"transfer_to_no_one": {events.CloseTransfer, func(b *bundle) { must(b.t, "close", b.CloseSession(b.ctx, parent, "first"), nil) }, child, events.TaskCancelled, ""},
		"transfer_to_its_id": {events.CloseTransfer, func(b *bundle) { b.register(parent, "k") }, child, events.TaskCancelled, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupIdle(t)
			begun, stopped, free := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
			b.tasks(bustest.Open(t, b.server), map[string]workers.TaskFunc{"stay": func(ctx context.Context, _ *workers.RunningTask) (string, error) {
				begun <- struct{}{}
				select {
				case <-ctx.Done():
					close(stopped)
				case <-free:
				}
				return "done", context.Cause(ctx)
			}})
			b.open(api.CreateRequest{ID: parent})
			b.open(api.CreateRequest{ID: child, Parent: parent})
			_, err := b.RegisterTask(b.ctx, child, api.TaskRequest{ID: "k", Runner: "stay", Close: c.policy})
			must(t, "register", err, nil)
			receive(b, "the task", begun)
			if c.before != nil {
				c.before(b)
			}
			must(t, "close", b.otherHost().CloseSession(b.ctx, child, "over"), nil)
			equal(t, "status", b.state(child).Status, projector.StatusClosed)
			if c.end == events.TaskCancelled {
				b.wait("the task's context", stopped)
			} else {
				close(free)
			}
			b.await(c.where, "the task's end", func(s *projector.State) bool {
				k, ok := s.Task("k")
				return ok && k.State == c.end
			})
			k, ok := b.state(child).Task("k")
			equal(t, "the session's record", ok, true)
			equal(t, "went to", k.To, c.source)
		})
	}
}

// register puts a task that a program outside runs in the registry.
func (b *bundle) register(id events.SessionID, name events.TaskID) {
	b.t.Helper()
	_, err := b.RegisterTask(b.ctx, id, api.TaskRequest{ID: name})
	must(b.t, "register", err, nil)
}

// TestExternalTask cancels a task that only the program which runs it may end: it is asked to stop, and goes on until
// that says how it ended, though its session is closed meanwhile.
func TestExternalTask(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	_, err := b.RegisterTask(b.ctx, id, api.TaskRequest{ID: "k", Cancel: events.CancelExternal, Close: events.CloseCancel})
	must(t, "register", err, nil)
	list, err := b.otherHost().CancelAllBackgroundTasks(b.ctx, id)
	must(t, "cancel all", err, nil)
	equal(t, "cancelled", len(list), 1)
	equal(t, "state", list[0].State, events.TaskCancelling)
	got, err := b.CancelTask(b.ctx, id, "k")
	must(t, "cancel", err, nil)
	equal(t, "state", got.State, events.TaskCancelling)
	must(t, "close", b.CloseSession(b.ctx, id, "over"), nil)
	equal(t, "state in the closed session", b.listed(id, "k").State, events.TaskCancelling)
	got, err = b.EndTask(b.ctx, id, "k", events.TaskCancelled, "stopped half way")
	must(t, "end", err, nil)
	equal(t, "summary", got.Summary, "stopped half way")
}
