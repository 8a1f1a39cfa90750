package catalogue

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
)

func taskEntries() []entry {
	return []entry{
		{"K01", "hidden tasks are awaited with their children", "a hidden task that spawns a hidden task", "awaited", "both are done", testHiddenNested},
		{"K02", "first error of hidden tasks is reported", "hidden tasks of which one fails", "awaited", "the first error", testHiddenFails},
		{"K03", "turn sees the nodes of a hidden task", "a hidden task that appends nodes", "awaited, then a turn", "the turn sees them", testHiddenAppends},
		{"K04", "task id is in use while the task runs", "a managed task that runs", "the same id is spawned", "refused; fine once it has ended", testSpawnTwice},
		{"K05", "error of a task is its summary", "a function that returns an error", "listed", "failed, with the error as summary", testTaskFails},
		{"K06", "ended task does not change", "a completed task", "completed, moved, cancelled", "unchanged", testTaskEnded},
		{"K07", "completion needs a final state", "a live task", "completed with a state that is no end", "nothing", testTaskRunWithoutEnd},
		{"K08", "task moves between waiting and running", "a live task", "moved between waiting and running", "reflected; other states ignored", testTaskMoves},
		{"K09", "task with a stop request keeps stopping", "a task that was asked to stop", "moved to running", "ignored", testTaskCancelRequested},
		{"K10", "unknown task is an error to cancel", "an unknown task", "cancelled, and cancelled as a managed one", "an error; fine", testTaskUnknown},
		{"K11", "cancel callback runs once", "a task that is run outside, with a callback", "cancelled twice", "called once; cancelled", testTaskCallback},
		{"K12", "cancel of all tasks lists live ones", "three live tasks and one done", "all cancelled", "three records, by creation", testCancelAll},
		{"K13", "unregistered task is not cancelled", "a live task", "unregistered", "gone, not cancelled", testUnregister},
		{"K14", "handles must be live", "a live handle and one that has ended", "validated", "fine; an error that names the ended one; fine without any", testValidate},
		{"K15", "transfer to a used id is refused", "a target that has a live task of the id", "transferred", "an error, and nothing moved", testTransferRefused},
		{"K16", "transferred task ends in its target", "a task that was transferred while it ran", "it ends", "the target lists it completed", testTransfer},
		{"K17", "unreferenced handles are cancelled", "live a and b and a monitor, keep a", "unreferenced ones cancelled", "b and the monitor are, and are returned", testUnreferenced},
		{"K18", "task of a dead node is restarted or abandoned", "tasks whose node dies", "listed elsewhere", "restarted, or failed as abandoned; never running for ever", testTaskNodeDies},
	}
}

// outside registers tasks that no node runs.
func outside(b *harness.System, id events.SessionID, names ...events.TaskID) {
	b.T.Helper()
	for _, name := range names {
		_, err := b.RegisterTask(b.Ctx, id, api.TaskRequest{ID: name})
		runtest.NoError(b.T, err)
	}
}

// testHiddenNested awaits a chain of hidden tasks. Each spawns the next shortly before its end, and continues
// after the spawn: at no time does the await see all of them.
func testHiddenNested(t *testing.T) {
	b, id, s := harness.StartWithTasks(t)
	const deep = 5
	gate := make(chan struct{})
	var done []int // each is written before the next one begins
	var chain func(n int, before <-chan struct{}) func(context.Context) error
	chain = func(n int, before <-chan struct{}) func(context.Context) error {
		return func(ctx context.Context) error {
			<-before
			done = append(done, n)
			if n == deep {
				return nil
			}
			ended := make(chan struct{})
			defer close(ended) // the next one begins when this one is over
			return s.SpawnHiddenTask(ctx, id, "inner", chain(n+1, ended))
		}
	}
	runtest.WantError(t, "spawn", s.SpawnHiddenTask(b.Ctx, id, "outer", chain(1, gate)), nil)
	awaited := make(chan error, 1)
	go func() { awaited <- s.AwaitHiddenTasks(b.Ctx, id) }() // ends with the tasks
	close(gate)
	runtest.WantError(t, "await", harness.Receive(b, "the await", awaited), nil)
	runtest.EqualLists(t, "done", done, []int{1, 2, 3, 4, 5})
	runtest.Equal(t, "tasks listed", len(b.StateOf(id).Tasks), 0)
	runtest.WantError(t, "await of none", s.AwaitHiddenTasks(b.Ctx, id), nil)
	runtest.WantError(t, "spawn in no session", s.SpawnHiddenTask(b.Ctx, "none", "x", func(context.Context) error { return nil }), events.ErrNoSession)
}

// testHiddenFails has several hidden tasks of which some fail. The await returns the error of the first of them in
// the order of their spawns, although a later one failed before it, and does not cancel the tasks behind it.
func testHiddenFails(t *testing.T) {
	b, id, s := harness.StartWithTasks(t)
	broken, worse, late, failed := errors.New("broken"), errors.New("worse"), make(chan struct{}), make(chan struct{})
	runtest.WantError(t, "spawn", s.SpawnHiddenTask(b.Ctx, id, "fine", func(context.Context) error { return nil }), nil)
	runtest.WantError(t, "spawn", s.SpawnHiddenTask(b.Ctx, id, "bad", func(context.Context) error { <-failed; return broken }), nil)
	runtest.WantError(t, "spawn", s.SpawnHiddenTask(b.Ctx, id, "worse", func(context.Context) error { defer close(failed); return worse }), nil)
	ended := make(chan struct{})
	runtest.WantError(t, "spawn", s.SpawnHiddenTask(b.Ctx, id, "last", func(context.Context) error { defer close(ended); <-late; panic("not awaited") }), nil)
	err := s.AwaitHiddenTasks(b.Ctx, id)
	runtest.WantError(t, "await", err, broken)
	runtest.Equal(t, "another's error", errors.Is(err, worse), false)
	runtest.WantError(t, "second await", s.AwaitHiddenTasks(b.Ctx, id), nil)
	close(late) // it still runs
	harness.Receive(b, "the end of the one that was left alone", ended)
	runtest.WantError(t, "spawn", s.SpawnHiddenTask(b.Ctx, id, "panics", func(context.Context) error { panic("oh") }), nil)
	if err := s.AwaitHiddenTasks(b.Ctx, id); err == nil || !strings.Contains(err.Error(), "oh") {
		t.Errorf("await of a panic: got %v, want an error with what it said", err)
	}
}

// testHiddenAppends has a plugin that records each turn. When the turn is persisted it spawns a hidden task, which
// appends below the nodes that it has read. After the await the next turn sees the append, on another node too.
// Where the session branched meanwhile the append is dropped.
func testHiddenAppends(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Text("hi")), harness.Reply(harness.Text("on")), harness.Reply(harness.Text("more")))
	gate := make(chan struct{}, 1)
	spawned, dropped := make(chan error, 8), make(chan error, 8)
	memory := harness.PluginOf("memory", func(r *plugin.Registrar) {
		r.Lifecycle(func(ctx context.Context, e plugin.Lifecycle) error {
			if e.Kind != plugin.TurnPersisted {
				return nil
			}
			err := e.Host.SpawnHiddenTask(ctx, e.Session, "remember", func(ctx context.Context) error {
				<-gate
				name := "memory of " + string(e.Turn)
				_, err := e.Host.AppendNodes(ctx, e.Session, api.AppendNodesRequest{RequiresAncestor: e.State.Leaf, Nodes: append(harness.UserMessages(name), api.AppendNode{Kind: events.NodePlugin, Type: "memory.note", Body: []byte("{}")})})
				dropped <- err
				return nil
			})
			spawned <- err
			return err
		})
	})
	n, kill := b.StartNodeOn(bustest.Open(t, b.Server), memory)
	b.Host = n.Host()
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("hello"))
	runtest.WantError(t, "spawn", harness.Receive(b, "a task", spawned), nil)
	gate <- struct{}{}
	runtest.WantError(t, "await", n.Tasks().AwaitHiddenTasks(b.Ctx, id), nil)
	runtest.WantError(t, "append", harness.Receive(b, "an append", dropped), nil)
	b.RunTurn(id, "t2", harness.Text("again"))
	runtest.EqualLists(t, "prompt", b.Model.Prompt(1), []string{"user hello", "assistant hi", "user memory of t1", "user again"})
	runtest.WantError(t, "spawn", harness.Receive(b, "another task", spawned), nil)
	runtest.WantError(t, "branch", b.BranchTo(b.Ctx, id, "memory of t1"), nil)
	gate <- struct{}{}
	runtest.WantError(t, "await", n.Tasks().AwaitHiddenTasks(b.Ctx, id), nil)
	if err := harness.Receive(b, "another append", dropped); !errors.As(err, new(*api.StaleBranchError)) {
		t.Errorf("append after a branch: got %v, want a stale branch", err)
	}
	b.Host = b.OtherHost()
	kill()
	b.StartNode()
	b.RunTurn(id, "t3", harness.Text("and again"))
	runtest.EqualLists(t, "prompt on another node", b.Model.Prompt(2), []string{"user hello", "assistant hi", "user memory of t1", "user and again"})
}

func testSpawnTwice(t *testing.T) {
	b, id, s := harness.StartWithTasks(t)
	gate := make(chan struct{})
	b.Spawn(s, id, "k", harness.GatedTask(gate))
	_, err := s.SpawnManaged(b.Ctx, id, api.TaskRequest{ID: "k"}, harness.GatedTask(gate))
	runtest.WantError(t, "second spawn", err, api.ErrTaskRunning)
	other, _ := b.StartTasks(bustest.Open(t, b.Server), nil)
	_, err = other.SpawnManaged(b.Ctx, id, api.TaskRequest{ID: "k"}, harness.GatedTask(gate))
	runtest.WantError(t, "spawn on another node", err, api.ErrTaskRunning)
	close(gate)
	runtest.Equal(t, "summary", b.AwaitTask(id, "k", events.TaskCompleted).Summary, "the gate opened")
	b.Spawn(other, id, "k", harness.GatedTask(gate))
	b.AwaitTask(id, "k", events.TaskCompleted)
	runtest.Equal(t, "records", len(b.StateOf(id).Tasks), 1)
	runtest.Equal(t, "registrations", len(harness.Find[*events.TaskRegistered](b, id)), 2)
}

func testTaskFails(t *testing.T) {
	b, id, s := harness.StartWithTasks(t)
	b.Spawn(s, id, "k", func(context.Context, *workers.RunningTask) (string, error) { return "", errors.New("no such page") })
	runtest.Equal(t, "summary", b.AwaitTask(id, "k", events.TaskFailed).Summary, "no such page")
	b.Spawn(s, id, "p", func(context.Context, *workers.RunningTask) (string, error) { panic("oh") })
	runtest.Equal(t, "summary of a panic", b.AwaitTask(id, "p", events.TaskFailed).Summary, "panic: oh")
}

func testTaskEnded(t *testing.T) {
	b, id, _ := harness.StartWithTasks(t)
	outside(b, id, "k")
	runtest.WantError(t, "complete", b.EndTask(b.Ctx, id, "k", events.TaskCompleted, "42"), nil)
	before := b.LastSeq(id)
	runtest.WantError(t, "complete again", b.EndTask(b.Ctx, id, "k", events.TaskFailed, "no"), nil)
	runtest.WantError(t, "transition", b.TransitionTask(b.Ctx, id, "k", events.TaskRunning), nil)
	rec, err := b.CancelTask(b.Ctx, id, "k")
	runtest.WantError(t, "cancel", err, nil)
	runtest.Equal(t, "state", rec.State, events.TaskCompleted)
	runtest.Equal(t, "summary", rec.Summary, "42")
	runtest.Equal(t, "sequence", b.LastSeq(id), before)
}

func testTaskRunWithoutEnd(t *testing.T) {
	b, id, _ := harness.StartWithTasks(t)
	outside(b, id, "k")
	before := b.LastSeq(id)
	for _, state := range []events.TaskState{events.TaskPending, events.TaskRunning, events.TaskWaiting, events.TaskCancelling} {
		runtest.WantError(t, "complete as "+string(state), b.EndTask(b.Ctx, id, "k", state, ""), nil)
	}
	runtest.WantError(t, "complete unknown", b.EndTask(b.Ctx, id, "x", events.TaskCompleted, ""), nil)
	runtest.Equal(t, "sequence", b.LastSeq(id), before)
	runtest.Equal(t, "state", b.ListedTask(id, "k").State, events.TaskRunning)
}

func testTaskMoves(t *testing.T) {
	b, id, s := harness.StartWithTasks(t)
	gate := make(chan struct{})
	b.Spawn(s, id, "k", func(ctx context.Context, r *workers.RunningTask) (string, error) {
		if err := errors.Join(r.Transition(ctx, events.TaskWaiting), r.Progress(ctx, "waiting")); err != nil {
			return "", err
		}
		return harness.GatedTask(gate)(ctx, r)
	})
	b.AwaitTask(id, "k", events.TaskWaiting)
	for _, state := range []events.TaskState{events.TaskPending, events.TaskCancelling, events.TaskCompleted, events.TaskCancelled} {
		runtest.WantError(t, "transition to "+string(state), b.TransitionTask(b.Ctx, id, "k", state), nil)
	}
	runtest.Equal(t, "state", b.ListedTask(id, "k").State, events.TaskWaiting)
	runtest.WantError(t, "transition", b.TransitionTask(b.Ctx, id, "k", events.TaskRunning), nil)
	runtest.Equal(t, "state", b.ListedTask(id, "k").State, events.TaskRunning)
	close(gate)
	runtest.Equal(t, "progress", b.AwaitTask(id, "k", events.TaskCompleted).Message, "waiting")
}

func testTaskCancelRequested(t *testing.T) {
	b, id, s := harness.StartWithTasks(t)
	outcomes, gate := make(chan error, 1), make(chan struct{})
	b.Spawn(s, id, "k", func(ctx context.Context, _ *workers.RunningTask) (string, error) {
		<-ctx.Done()
		outcomes <- context.Cause(ctx)
		<-gate
		return "", context.Cause(ctx)
	})
	_, err := b.RequestCancelTask(b.Ctx, id, "k", "enough")
	runtest.WantError(t, "request", err, nil)
	runtest.WantError(t, "cause of the task's end", harness.Receive(b, "the outcome", outcomes), workers.ErrTaskCancelled)
	before := b.LastSeq(id)
	runtest.WantError(t, "transition", b.TransitionTask(b.Ctx, id, "k", events.TaskRunning), nil)
	runtest.Equal(t, "state", b.ListedTask(id, "k").State, events.TaskCancelling)
	runtest.Equal(t, "sequence", b.LastSeq(id), before)
	close(gate)
	runtest.Equal(t, "reason", b.AwaitTask(id, "k", events.TaskCancelled).Reason, "enough")
}

func testTaskUnknown(t *testing.T) {
	b, id, _ := harness.StartWithTasks(t)
	_, err := b.CancelTask(b.Ctx, id, "x")
	runtest.WantError(t, "cancel", err, api.ErrUnknownTask)
	runtest.WantError(t, "cancel of an unknown task", b.CancelTaskIfKnown(b.Ctx, id, "x"), nil)
	list, err := b.Tasks(b.Ctx, "no-such-session")
	runtest.WantError(t, "list", err, nil)
	runtest.Equal(t, "tasks of no session", len(list), 0)
}

func testTaskCallback(t *testing.T) {
	b, id, _ := harness.StartWithTasks(t)
	calls := make(chan string, 4)
	for _, name := range []events.TaskID{"near", "far"} {
		_, err := b.RegisterTask(b.Ctx, id, api.TaskRequest{ID: name, OnCancel: func() { calls <- string(name) }})
		runtest.WantError(t, "register", err, nil)
	}
	for range 2 {
		rec, err := b.CancelTask(b.Ctx, id, "near")
		runtest.WantError(t, "cancel", err, nil)
		runtest.Equal(t, "state", rec.State, events.TaskCancelled)
	}
	runtest.Equal(t, "called", harness.Receive(b, "calls", calls), "near")
	other := b.OtherHost()
	for range 2 {
		_, err := other.CancelTask(b.Ctx, id, "far")
		runtest.WantError(t, "cancel elsewhere", err, nil)
	}
	runtest.Equal(t, "called", harness.Receive(b, "calls", calls), "far")
	runtest.Equal(t, "more calls", len(calls), 0)
}

func testCancelAll(t *testing.T) {
	b, id, s := harness.StartWithTasks(t)
	stopped := make(chan error, 1)
	outside(b, id, "c", "done")
	runtest.WantError(t, "complete", b.EndTask(b.Ctx, id, "done", events.TaskCompleted, ""), nil)
	b.Spawn(s, id, "b", func(ctx context.Context, _ *workers.RunningTask) (string, error) {
		<-ctx.Done()
		stopped <- context.Cause(ctx)
		return "", nil
	})
	outside(b, id, "a")
	before := b.LastSeq(id)
	list, err := b.Worker().RuntimeHost(id, nil, "").CancelTasksExcept(b.Ctx, id, nil)
	runtest.WantError(t, "cancel all", err, nil)
	var names []events.TaskID
	for _, rec := range list {
		names = append(names, rec.ID)
		runtest.Equal(t, "state of "+string(rec.ID), rec.State, events.TaskCancelled)
	}
	runtest.EqualLists(t, "cancelled", names, []events.TaskID{"c", "b", "a"})
	runtest.WantError(t, "what the closure is told", harness.Receive(b, "stopped", stopped), workers.ErrTaskCancelled)
	runtest.Equal(t, "commits", b.LastSeq(id)-before, 1)
	runtest.Equal(t, "done", b.ListedTask(id, "done").State, events.TaskCompleted)
}

func testUnregister(t *testing.T) {
	b, id, s := harness.StartWithTasks(t)
	gate, outcomes := make(chan struct{}), make(chan string, 1)
	b.Spawn(s, id, "k", func(ctx context.Context, r *workers.RunningTask) (string, error) {
		_, err := harness.GatedTask(gate)(ctx, r)
		outcomes <- errText(err)
		return "", err
	})
	runtest.WantError(t, "unregister", b.UnregisterTask(b.Ctx, id, "k"), nil)
	runtest.WantError(t, "unregister again", b.UnregisterTask(b.Ctx, id, "k"), nil)
	runtest.Equal(t, "listed", b.ListedTask(id, "k").ID, "")
	b.Spawn(s, id, "k2", harness.GatedTask(nil)) // a commit that the first task's runner receives
	close(gate)
	runtest.Equal(t, "the task's error", harness.Receive(b, "the outcome", outcomes), "")
	runtest.Equal(t, "ends", len(harness.Find[*events.TaskEnded](b, id)), 0)
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
