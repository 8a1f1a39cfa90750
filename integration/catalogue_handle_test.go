package integration

import (
	"context"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/workers"
)

func testValidate(t *testing.T) {
	b, id, _ := setupTasks(t)
	b.outside(id, "h1", "h2")
	must(t, "complete", b.CompleteBackgroundTask(b.ctx, id, "h2", events.TaskCompleted, ""), nil)
	must(t, "live", b.ValidateAsyncHandlesVisible(b.ctx, id, []events.TaskID{"h1"}), nil)
	err := b.ValidateAsyncHandlesVisible(b.ctx, id, []events.TaskID{"h1", "h2"})
	must(t, "ended", err, task.ErrUnknown)
	equal(t, "named", strings.Contains(errText(err), "h2"), true)
	must(t, "none", b.ValidateAsyncHandlesVisible(b.ctx, id, nil), nil)
}

func testTransferRefused(t *testing.T) {
	b, id, _ := setupTasks(t)
	to := b.open(api.CreateRequest{})
	b.outside(id, "h0", "h1")
	b.outside(to, "h1")
	from, target := b.last(id), b.last(to)
	must(t, "transfer", b.TransferAsyncHandles(b.ctx, id, to, []events.TaskID{"h0", "h1"}), task.ErrRunning)
	equal(t, "source", b.last(id), from)
	equal(t, "target", b.last(to), target)
	must(t, "transfer to itself", b.TransferAsyncHandles(b.ctx, id, id, []events.TaskID{"h0"}), nil)
	must(t, "transfer of none", b.TransferAsyncHandles(b.ctx, id, to, nil), nil)
	must(t, "transfer of unknown", b.TransferAsyncHandles(b.ctx, id, to, []events.TaskID{"x"}), nil)
}

// testTransfer ends tasks after their transfer: a closure, one that was
// transferred twice, and one whose caller died between the two commits.
func testTransfer(t *testing.T) {
	b, id, s := setupTasks(t)
	to, third := b.open(api.CreateRequest{}), b.open(api.CreateRequest{})
	gates := map[events.TaskID]chan struct{}{"k": make(chan struct{}), "twice": make(chan struct{}), "half": make(chan struct{})}
	for _, name := range []events.TaskID{"k", "twice", "half"} {
		b.spawn(s, id, name, gated(gates[name]))
	}
	must(t, "transfer", b.TransferAsyncHandles(b.ctx, id, to, []events.TaskID{"k", "twice"}), nil)
	must(t, "transfer again", b.TransferAsyncHandles(b.ctx, id, to, []events.TaskID{"k", "twice"}), nil)
	must(t, "transfer on", b.TransferAsyncHandles(b.ctx, to, third, []events.TaskID{"twice"}), nil)
	equal(t, "listed at the source", b.listed(id, "k").ID, "")
	close(gates["k"])
	close(gates["twice"])
	equal(t, "summary", b.taskIs(to, "k", events.TaskCompleted).Summary, "the gate opened")
	equal(t, "from", b.listed(to, "k").From, id)
	b.taskIs(third, "twice", events.TaskCompleted)
	equal(t, "listed on the way", b.listed(to, "twice").ID, "")
	must(t, "source ends", errOf(len(find[*events.TaskEnded](b, id)) == 0), nil)

	// The target has registered it, and the caller dies: the task's job there finishes the transfer.
	half := b.listed(id, "half")
	b.commitWith(to, &events.TaskRegistered{
		Task: "half", Worker: half.Worker, State: half.State, From: id, Created: half.CreatedAt,
	})
	_, err := b.RegisterTask(b.ctx, to, api.TaskRequest{ID: "half"})
	must(t, "registering it in between", err, task.ErrRunning) // and queues the job that was not
	b.await(id, "the transfer", left("half"))
	close(gates["half"])
	b.taskIs(to, "half", events.TaskCompleted)
}

func testUnreferenced(t *testing.T) {
	b, id, _ := setupTasks(t)
	b.outside(id, "a", "b")
	must(t, "start monitor", b.StartMonitor(b.ctx, id, forever("m")), nil)
	b.taskIs(id, "monitor-m", events.TaskRunning)
	list, err := b.CancelUnreferencedAsyncHandles(b.ctx, id, []events.TaskID{"a"})
	must(t, "cancel", err, nil)
	var names []events.TaskID
	for _, rec := range list {
		names = append(names, rec.ID)
		equal(t, "state of "+string(rec.ID), rec.State, events.TaskCancelled)
	}
	equalLists(t, "cancelled", names, []events.TaskID{"b", "monitor-m"})
	equal(t, "kept", b.listed(id, "a").State, events.TaskRunning)
	equal(t, "monitor", b.monitor(id, "m").State, events.MonitorStopped)
	must(t, "close", b.CloseSession(b.ctx, id, "over"), nil)
	equal(t, "kept, after the session was closed", b.listed(id, "a").State, events.TaskRunning)
}

// testTaskNodeDies cuts a node off in the middle of its tasks: it can neither
// record nor hand back anything. Another finds out by itself.
func testTaskNodeDies(t *testing.T) {
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	attempts := make(chan int64, 4)
	runners := map[string]workers.TaskFunc{"digest": func(ctx context.Context, r *workers.RunningTask) (string, error) {
		attempts <- r.Attempt()
		if r.Attempt() > 1 {
			return "again: " + string(r.Args()), nil
		}
		<-ctx.Done()
		return "", context.Cause(ctx)
	}}
	away := bustest.Open(t, b.server)
	first, stop := b.tasks(away, runners)
	b.spawn(first, id, "closure", gated(nil))
	for name, restart := range map[events.TaskID]events.RestartPolicy{"again": events.RestartAlways, "once": events.RestartNever} {
		_, err := b.RegisterTask(b.ctx, id, api.TaskRequest{ID: name, Runner: "digest", Args: []byte(`{"n":1}`), Restart: restart})
		must(t, "register", err, nil)
	}
	equal(t, "attempt", receive(b, "an attempt", attempts), 1)
	equal(t, "attempt", receive(b, "an attempt", attempts), 1)
	away.Close()
	second, _ := b.tasks(bustest.Open(t, b.server), runners)
	why := "abandoned: worker " + string(first.ID()) + " is gone"
	equal(t, "closure", b.taskIs(id, "closure", events.TaskFailed).Summary, why)
	equal(t, "task that is not restarted", b.taskIs(id, "once", events.TaskFailed).Summary, why)
	rec := b.taskIs(id, "again", events.TaskCompleted)
	equal(t, "restarted task", rec.Summary, `again: {"n":1}`)
	equal(t, "attempts", rec.Attempt, 2)
	equal(t, "worker", rec.Worker, second.ID())
	equal(t, "attempt", receive(b, "an attempt", attempts), 2)
	stop()

	// A worker that stops in order hands back at once, and says so.
	third, stop := b.tasks(bustest.Open(t, b.server), nil)
	b.spawn(third, id, "stopped", gated(nil))
	stop()
	equal(t, "stopped", b.taskIs(id, "stopped", events.TaskFailed).Summary, "abandoned: worker "+string(third.ID())+" stopped")
	verified(t, b.bus, id)
}
