package catalogue

import (
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// TestTaskCallbackMoves transfers tasks twice, by the process that has their callbacks and by another, and cancels them: each
// callback is called once. It is called too where the task was cancelled before that process learned of the transfer.
func TestTaskCallbackMoves(t *testing.T) {
	t.Parallel()
	b, id, _ := harness.StartWithTasks(t)
	calls := make(chan string, 8)
	register := func(name events.TaskID) projector.Task {
		k, err := b.RegisterTask(b.Ctx, id, api.TaskRequest{ID: name, OnCancel: func() { calls <- string(name) }})
		runtest.WantError(t, "register", err, nil)
		return k
	}
	other := b.OtherHost()
	for name, by := range map[events.TaskID]*session.Host{"own": b.Host, "others": other} {
		register(name)
		for range 2 {
			to := b.Open(api.CreateRequest{})
			runtest.WantError(t, "transfer", by.TransferTasks(b.Ctx, taskAt(b, id, name), to, []events.TaskID{name}), nil)
		}
		_, err := by.CancelTask(b.Ctx, taskAt(b, id, name), name) // whether or not the callback has followed by now
		runtest.WantError(t, "cancel", err, nil)
		runtest.Equal(t, "called", harness.Receive(b, "calls", calls), string(name))
	}
	late, to := register("late"), b.Open(api.CreateRequest{})
	b.CommitUnchecked(to, &events.TaskRegistered{Task: "late", State: late.State, From: id, Created: late.CreatedAt})
	b.CommitUnchecked(to, &events.TaskEnded{Task: "late", State: events.TaskCancelled})
	b.CommitUnchecked(id, &events.TaskTransferred{Tasks: []events.TaskID{"late"}, To: to})
	runtest.Equal(t, "called", harness.Receive(b, "calls", calls), "late")
	runtest.Equal(t, "more calls", len(calls), 0)
}

// taskAt follows the transfers of a task and returns the session that it is in.
func taskAt(b *harness.System, id events.SessionID, name events.TaskID) events.SessionID {
	b.T.Helper()
	for {
		k, err := b.Task(b.Ctx, id, name)
		runtest.WantError(b.T, "task", err, nil)
		if k.To == "" {
			return id
		}
		id = k.To
	}
}
