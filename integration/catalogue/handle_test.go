package catalogue

import (
	"context"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
)

func testValidate(t *testing.T) {
	b, id, _ := harness.StartWithTasks(t)
	outside(b, id, "h1", "h2")
	runtest.WantError(t, "complete", b.EndTask(b.Ctx, id, "h2", events.TaskCompleted, ""), nil)
	runtest.WantError(t, "live", b.CheckTasks(b.Ctx, id, []events.TaskID{"h1"}), nil)
	err := b.CheckTasks(b.Ctx, id, []events.TaskID{"h1", "h2"})
	runtest.WantError(t, "ended", err, api.ErrUnknownTask)
	runtest.Equal(t, "named", strings.Contains(errText(err), "h2"), true)
	runtest.WantError(t, "none", b.CheckTasks(b.Ctx, id, nil), nil)
}

func testTransferRefused(t *testing.T) {
	b, id, _ := harness.StartWithTasks(t)
	to := b.Open(api.CreateRequest{})
	outside(b, id, "h0", "h1")
	outside(b, to, "h1")
	from, target := b.LastSeq(id), b.LastSeq(to)
	runtest.WantError(t, "transfer", b.TransferTasks(b.Ctx, id, to, []events.TaskID{"h0", "h1"}), api.ErrTaskRunning)
	runtest.Equal(t, "source", b.LastSeq(id), from)
	runtest.Equal(t, "target", b.LastSeq(to), target)
	runtest.WantError(t, "transfer to itself", b.TransferTasks(b.Ctx, id, id, []events.TaskID{"h0"}), nil)
	runtest.WantError(t, "transfer of none", b.TransferTasks(b.Ctx, id, to, nil), nil)
	runtest.WantError(t, "transfer of unknown", b.TransferTasks(b.Ctx, id, to, []events.TaskID{"x"}), nil)
}

// testTransfer ends tasks after their transfer: a closure, a task that was transferred twice, and one whose caller
// died between the two commits.
func testTransfer(t *testing.T) {
	b, id, s := harness.StartWithTasks(t)
	to, third := b.Open(api.CreateRequest{}), b.Open(api.CreateRequest{})
	gates := map[events.TaskID]chan struct{}{"k": make(chan struct{}), "twice": make(chan struct{}), "half": make(chan struct{})}
	for _, name := range []events.TaskID{"k", "twice", "half"} {
		b.Spawn(s, id, name, harness.GatedTask(gates[name]))
	}
	runtest.WantError(t, "transfer", b.TransferTasks(b.Ctx, id, to, []events.TaskID{"k", "twice"}), nil)
	runtest.WantError(t, "transfer again", b.TransferTasks(b.Ctx, id, to, []events.TaskID{"k", "twice"}), nil)
	runtest.WantError(t, "transfer on", b.TransferTasks(b.Ctx, to, third, []events.TaskID{"twice"}), nil)
	runtest.Equal(t, "listed at the source", b.ListedTask(id, "k").ID, "")
	close(gates["k"])
	close(gates["twice"])
	runtest.Equal(t, "summary", b.AwaitTask(to, "k", events.TaskCompleted).Summary, "the gate opened")
	runtest.Equal(t, "from", b.ListedTask(to, "k").From, id)
	b.AwaitTask(third, "twice", events.TaskCompleted)
	runtest.Equal(t, "listed on the way", b.ListedTask(to, "twice").ID, "")
	runtest.WantError(t, "source ends", errOf(len(harness.Find[*events.TaskEnded](b, id)) == 0), nil)

	// The target has registered the task, and the caller dies: the job of the task there finishes the transfer.
	half := b.ListedTask(id, "half")
	b.CommitUnchecked(to, &events.TaskRegistered{
		Task: "half", Worker: half.Worker, State: half.State, From: id, Created: half.CreatedAt,
	})
	_, err := b.RegisterTask(b.Ctx, to, api.TaskRequest{ID: "half"})
	runtest.WantError(t, "registering it in between", err, api.ErrTaskRunning) // and queues the job that was not
	b.AwaitState(id, "the transfer", transferred("half"))
	close(gates["half"])
	b.AwaitTask(to, "half", events.TaskCompleted)
}

func testUnreferenced(t *testing.T) {
	b, id, _ := harness.StartWithTasks(t)
	outside(b, id, "a", "b")
	runtest.WantError(t, "start monitor", b.StartMonitor(b.Ctx, id, forever("m")), nil)
	b.AwaitTask(id, "monitor-m", events.TaskRunning)
	list, err := b.Worker().RuntimeHost(id, nil, "").CancelTasksExcept(b.Ctx, id, []events.TaskID{"a"})
	runtest.WantError(t, "cancel", err, nil)
	var names []events.TaskID
	for _, rec := range list {
		names = append(names, rec.ID)
		runtest.Equal(t, "state of "+string(rec.ID), rec.State, events.TaskCancelled)
	}
	runtest.EqualLists(t, "cancelled", names, []events.TaskID{"b", "monitor-m"})
	runtest.Equal(t, "kept", b.ListedTask(id, "a").State, events.TaskRunning)
	runtest.Equal(t, "monitor", b.MonitorRecord(id, "m").State, events.MonitorStopped)
	runtest.WantError(t, "close", b.CloseSession(b.Ctx, id, "over"), nil)
	runtest.Equal(t, "kept, after the session was closed", b.ListedTask(id, "a").State, events.TaskRunning)
}

// testTaskNodeDies disconnects a node in the middle of its tasks: it cannot record or release anything. Another
// node detects this without a message from it.
func testTaskNodeDies(t *testing.T) {
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	attempts := make(chan int64, 4)
	runners := map[string]workers.TaskFunc{"digest": func(ctx context.Context, r *workers.RunningTask) (string, error) {
		attempts <- r.Attempt()
		if r.Attempt() > 1 {
			return "again: " + string(r.Args()), nil
		}
		<-ctx.Done()
		return "", context.Cause(ctx)
	}}
	secondBus := bustest.Open(t, b.Server)
	first, stop := b.StartTasks(secondBus, runners)
	b.Spawn(first, id, "closure", harness.GatedTask(nil))
	for name, restart := range map[events.TaskID]events.RestartPolicy{"again": events.RestartAlways, "once": events.RestartNever} {
		_, err := b.RegisterTask(b.Ctx, id, api.TaskRequest{ID: name, Runner: "digest", Args: []byte(`{"n":1}`), Restart: restart})
		runtest.WantError(t, "register", err, nil)
	}
	runtest.Equal(t, "attempt", harness.Receive(b, "an attempt", attempts), 1)
	runtest.Equal(t, "attempt", harness.Receive(b, "an attempt", attempts), 1)
	secondBus.Close()
	second, _ := b.StartTasks(bustest.Open(t, b.Server), runners)
	why := "abandoned: worker " + string(first.ID()) + " is gone"
	runtest.Equal(t, "closure", b.AwaitTask(id, "closure", events.TaskFailed).Summary, why)
	runtest.Equal(t, "task that is not restarted", b.AwaitTask(id, "once", events.TaskFailed).Summary, why)
	rec := b.AwaitTask(id, "again", events.TaskCompleted)
	runtest.Equal(t, "restarted task", rec.Summary, `again: {"n":1}`)
	runtest.Equal(t, "attempts", rec.Attempt, 2)
	runtest.Equal(t, "worker", rec.Worker, second.ID())
	runtest.Equal(t, "attempt", harness.Receive(b, "an attempt", attempts), 2)
	stop()

	// A worker that stops in order releases its tasks at once, and announces it.
	third, stop := b.StartTasks(bustest.Open(t, b.Server), nil)
	b.Spawn(third, id, "stopped", harness.GatedTask(nil))
	stop()
	runtest.Equal(t, "stopped", b.AwaitTask(id, "stopped", events.TaskFailed).Summary, "abandoned: worker "+string(third.ID())+" stopped")
	harness.VerifyHistory(t, b.Bus, id)
}
