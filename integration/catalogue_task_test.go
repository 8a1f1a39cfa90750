package integration

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/workers"
)

func taskEntries() []entry {
	return []entry{
		{"K01", "a hidden task that spawns a hidden task", "awaited", "both are done", testHiddenNested},
		{"K02", "hidden tasks of which one fails", "awaited", "the first error", testHiddenFails},
		{"K03", "a hidden task that appends nodes", "awaited, then a turn", "the turn sees them", testHiddenAppends},
		{"K04", "a managed task that runs", "the same id is spawned", "refused; fine once it has ended", testSpawnTwice},
		{"K05", "a function that returns an error", "listed", "failed, with the error as summary", testTaskFails},
		{"K06", "a completed task", "completed, moved, cancelled", "unchanged", testTaskEnded},
		{"K07", "a live task", "completed with a state that is no end", "nothing", testTaskNoEnd},
		{"K08", "a live task", "moved between waiting and running", "reflected; other states ignored", testTaskMoves},
		{"K09", "a task that was asked to stop", "moved to running", "ignored", testTaskAsked},
		{"K10", "an unknown task", "cancelled, and cancelled as a managed one", "an error; fine", testTaskUnknown},
		{"K11", "a task that is run outside, with a callback", "cancelled twice", "called once; cancelled", testTaskCallback},
		{"K12", "three live tasks and one done", "all cancelled", "three records, by creation", testCancelAll},
		{"K13", "a live task", "unregistered", "gone, not cancelled", testUnregister},
		{"K14", "a live handle and one that has ended", "validated", "fine; an error that names the ended one; fine without any", testValidate},
		{"K15", "a target that has a live task of the id", "transferred", "an error, and nothing moved", testTransferRefused},
		{"K16", "a task that was transferred while it ran", "it ends", "the target lists it completed", testTransfer},
		{"K17", "live a and b and a monitor, keep a", "unreferenced ones cancelled", "b and the monitor are, and are returned", testUnreferenced},
		{"K18", "tasks whose node dies", "listed elsewhere", "restarted, or failed as abandoned; never running for ever", testTaskNodeDies},
	}
}

// tasks starts a tasks service that ends with the test, and returns how to stop it at once.
func (b *bundle) tasks(on *bus.Bus, runners map[string]workers.TaskFunc) (s *workers.Tasks, stop func()) {
	b.t.Helper()
	n, err := workers.NewNode(workers.Config{Bus: on, Roles: []workers.Role{workers.RoleTask}, Runners: runners, Logger: zaptest.NewLogger(b.t)})
	if err != nil {
		b.t.Fatal(err)
	}
	if err := n.Start(b.ctx); err != nil {
		b.t.Fatal(err)
	}
	var once sync.Once
	stop = func() {
		once.Do(func() {
			now, cancel := context.WithCancel(context.Background()) // the test's own has ended in a cleanup
			cancel()
			n.Stop(now)
		})
	}
	b.t.Cleanup(stop)
	return n.Tasks(), stop
}

// setupTasks has a session and a tasks service on a connection of its own.
func setupTasks(t *testing.T) (*bundle, events.SessionID, *workers.Tasks) {
	t.Helper()
	b := setupIdle(t)
	s, _ := b.tasks(bustest.Open(t, b.server), nil)
	return b, b.open(api.CreateRequest{}), s
}

// gated runs until it is cancelled, or its gate is closed.
func gated(gate <-chan struct{}) workers.TaskFunc {
	return func(ctx context.Context, _ *workers.RunningTask) (string, error) {
		select {
		case <-gate:
			return "the gate opened", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

func (b *bundle) spawn(s *workers.Tasks, id events.SessionID, name events.TaskID, work workers.TaskFunc) {
	b.t.Helper()
	if _, err := s.SpawnManaged(b.ctx, id, api.TaskRequest{ID: name}, work); err != nil {
		b.t.Fatal(err)
	}
}

// outside registers tasks that nobody in the fleet runs.
func (b *bundle) outside(id events.SessionID, names ...events.TaskID) {
	b.t.Helper()
	for _, name := range names {
		if _, err := b.RegisterTask(b.ctx, id, api.TaskRequest{ID: name}); err != nil {
			b.t.Fatal(err)
		}
	}
}

// listed is the record of a task in the list; the zero record where it is not.
func (b *bundle) listed(id events.SessionID, name events.TaskID) projector.Task {
	b.t.Helper()
	list, err := b.Tasks(b.ctx, id)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, t := range list {
		if t.ID == name {
			return t
		}
	}
	return projector.Task{}
}

// taskIs waits until a task is in a state.
func (b *bundle) taskIs(id events.SessionID, name events.TaskID, state events.TaskState) projector.Task {
	b.t.Helper()
	s := b.await(id, string(name)+" "+string(state), func(s *projector.State) bool {
		t, ok := s.Task(name)
		return ok && t.State == state && t.To == ""
	})
	t, _ := s.Task(name)
	return *t
}

// testHiddenNested awaits a chain of hidden tasks, each of which spawns the next when it is about
// to end, and goes on after it has: at no time does the await see all of them.
func testHiddenNested(t *testing.T) {
	b, id, s := setupTasks(t)
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
	must(t, "spawn", s.SpawnHiddenTask(b.ctx, id, "outer", chain(1, gate)), nil)
	awaited := make(chan error, 1)
	go func() { awaited <- s.AwaitHiddenTasks(b.ctx, id) }() // ends with the tasks
	close(gate)
	must(t, "await", receive(b, "the await", awaited), nil)
	equalLists(t, "done", done, []int{1, 2, 3, 4, 5})
	equal(t, "tasks listed", len(b.state(id).Tasks), 0)
	must(t, "await of none", s.AwaitHiddenTasks(b.ctx, id), nil)
	must(t, "spawn in no session", s.SpawnHiddenTask(b.ctx, "none", "x", func(context.Context) error { return nil }), events.ErrNoSession)
}

// testHiddenFails has several hidden tasks of which some fail: the await gives the error of the first of them
// in the order of their spawns, though a later one failed before it, and leaves those behind it alone.
func testHiddenFails(t *testing.T) {
	b, id, s := setupTasks(t)
	broken, worse, late, failed := errors.New("broken"), errors.New("worse"), make(chan struct{}), make(chan struct{})
	must(t, "spawn", s.SpawnHiddenTask(b.ctx, id, "fine", func(context.Context) error { return nil }), nil)
	must(t, "spawn", s.SpawnHiddenTask(b.ctx, id, "bad", func(context.Context) error { <-failed; return broken }), nil)
	must(t, "spawn", s.SpawnHiddenTask(b.ctx, id, "worse", func(context.Context) error { defer close(failed); return worse }), nil)
	left := make(chan struct{})
	must(t, "spawn", s.SpawnHiddenTask(b.ctx, id, "last", func(context.Context) error { defer close(left); <-late; panic("not awaited") }), nil)
	err := s.AwaitHiddenTasks(b.ctx, id)
	must(t, "await", err, broken)
	equal(t, "another's error", errors.Is(err, worse), false)
	must(t, "second await", s.AwaitHiddenTasks(b.ctx, id), nil)
	close(late) // it still runs
	receive(b, "the end of the one that was left alone", left)
	must(t, "spawn", s.SpawnHiddenTask(b.ctx, id, "panics", func(context.Context) error { panic("oh") }), nil)
	if err := s.AwaitHiddenTasks(b.ctx, id); err == nil || !strings.Contains(err.Error(), "oh") {
		t.Errorf("await of a panic: got %v, want an error with what it said", err)
	}
}

// testHiddenAppends has a plugin remember each turn: once the turn is persisted it spawns a hidden task, which appends
// below what it has seen. After the await the next turn sees it, on another node too; where the session branched meanwhile it is dropped.
func testHiddenAppends(t *testing.T) {
	b := setupIdle(t, reply(text("hi")), reply(text("on")), reply(text("more")))
	gate := make(chan struct{}, 1)
	spawned, dropped := make(chan error, 8), make(chan error, 8)
	memory := declares("memory", func(r *plugin.Registrar) {
		r.Lifecycle(func(ctx context.Context, e plugin.Lifecycle) error {
			if e.Kind != plugin.TurnPersisted {
				return nil
			}
			err := e.Host.SpawnHiddenTask(ctx, e.Session, "remember", func(ctx context.Context) error {
				<-gate
				name := "memory of " + string(e.Turn)
				_, err := e.Host.AppendNodes(ctx, e.Session, api.AppendNodesRequest{RequiresAncestor: e.State.Leaf, Nodes: append(says(name), api.AppendNode{Kind: events.NodePlugin, Type: "memory.note", Body: []byte("{}")})})
				dropped <- err
				return nil
			})
			spawned <- err
			return err
		})
	})
	n, kill := b.nodeOn(bustest.Open(t, b.server), memory)
	b.Host = n.Host()
	id := b.open(api.CreateRequest{})
	b.run(id, "t1", text("hello"))
	must(t, "spawn", receive(b, "a task", spawned), nil)
	gate <- struct{}{}
	must(t, "await", n.Tasks().AwaitHiddenTasks(b.ctx, id), nil)
	must(t, "append", receive(b, "an append", dropped), nil)
	b.run(id, "t2", text("again"))
	equalLists(t, "prompt", b.model.prompt(1), []string{"user hello", "assistant hi", "user memory of t1", "user again"})
	must(t, "spawn", receive(b, "another task", spawned), nil)
	must(t, "branch", b.BranchTo(b.ctx, id, "memory of t1"), nil)
	gate <- struct{}{}
	must(t, "await", n.Tasks().AwaitHiddenTasks(b.ctx, id), nil)
	if err := receive(b, "another append", dropped); !errors.As(err, new(*api.StaleBranchError)) {
		t.Errorf("append after a branch: got %v, want a stale branch", err)
	}
	b.Host = b.otherHost()
	kill()
	b.node()
	b.run(id, "t3", text("and again"))
	equalLists(t, "prompt on another node", b.model.prompt(2), []string{"user hello", "assistant hi", "user memory of t1", "user and again"})
}

func testSpawnTwice(t *testing.T) {
	b, id, s := setupTasks(t)
	gate := make(chan struct{})
	b.spawn(s, id, "k", gated(gate))
	_, err := s.SpawnManaged(b.ctx, id, api.TaskRequest{ID: "k"}, gated(gate))
	must(t, "second spawn", err, task.ErrRunning)
	other, _ := b.tasks(bustest.Open(t, b.server), nil)
	_, err = other.SpawnManaged(b.ctx, id, api.TaskRequest{ID: "k"}, gated(gate))
	must(t, "spawn on another node", err, task.ErrRunning)
	close(gate)
	equal(t, "summary", b.taskIs(id, "k", events.TaskCompleted).Summary, "the gate opened")
	b.spawn(other, id, "k", gated(gate))
	b.taskIs(id, "k", events.TaskCompleted)
	equal(t, "records", len(b.state(id).Tasks), 1)
	equal(t, "registrations", len(find[*events.TaskRegistered](b, id)), 2)
}

func testTaskFails(t *testing.T) {
	b, id, s := setupTasks(t)
	b.spawn(s, id, "k", func(context.Context, *workers.RunningTask) (string, error) { return "", errors.New("no such page") })
	equal(t, "summary", b.taskIs(id, "k", events.TaskFailed).Summary, "no such page")
	b.spawn(s, id, "p", func(context.Context, *workers.RunningTask) (string, error) { panic("oh") })
	equal(t, "summary of a panic", b.taskIs(id, "p", events.TaskFailed).Summary, "panic: oh")
}

func testTaskEnded(t *testing.T) {
	b, id, _ := setupTasks(t)
	b.outside(id, "k")
	must(t, "complete", b.CompleteBackgroundTask(b.ctx, id, "k", events.TaskCompleted, "42"), nil)
	before := b.last(id)
	must(t, "complete again", b.CompleteBackgroundTask(b.ctx, id, "k", events.TaskFailed, "no"), nil)
	must(t, "transition", b.TransitionBackgroundTask(b.ctx, id, "k", events.TaskRunning), nil)
	rec, err := b.CancelTask(b.ctx, id, "k")
	must(t, "cancel", err, nil)
	equal(t, "state", rec.State, events.TaskCompleted)
	equal(t, "summary", rec.Summary, "42")
	equal(t, "sequence", b.last(id), before)
}

func testTaskNoEnd(t *testing.T) {
	b, id, _ := setupTasks(t)
	b.outside(id, "k")
	before := b.last(id)
	for _, state := range []events.TaskState{events.TaskPending, events.TaskRunning, events.TaskWaiting, events.TaskCancelling} {
		must(t, "complete as "+string(state), b.CompleteBackgroundTask(b.ctx, id, "k", state, ""), nil)
	}
	must(t, "complete unknown", b.CompleteBackgroundTask(b.ctx, id, "x", events.TaskCompleted, ""), nil)
	equal(t, "sequence", b.last(id), before)
	equal(t, "state", b.listed(id, "k").State, events.TaskRunning)
}

func testTaskMoves(t *testing.T) {
	b, id, s := setupTasks(t)
	gate := make(chan struct{})
	b.spawn(s, id, "k", func(ctx context.Context, r *workers.RunningTask) (string, error) {
		if err := errors.Join(r.Transition(ctx, events.TaskWaiting), r.Progress(ctx, "waiting")); err != nil {
			return "", err
		}
		return gated(gate)(ctx, r)
	})
	b.taskIs(id, "k", events.TaskWaiting)
	for _, state := range []events.TaskState{events.TaskPending, events.TaskCancelling, events.TaskCompleted, events.TaskCancelled} {
		must(t, "transition to "+string(state), b.TransitionBackgroundTask(b.ctx, id, "k", state), nil)
	}
	equal(t, "state", b.listed(id, "k").State, events.TaskWaiting)
	must(t, "transition", b.TransitionBackgroundTask(b.ctx, id, "k", events.TaskRunning), nil)
	equal(t, "state", b.listed(id, "k").State, events.TaskRunning)
	close(gate)
	equal(t, "progress", b.taskIs(id, "k", events.TaskCompleted).Message, "waiting")
}

func testTaskAsked(t *testing.T) {
	b, id, s := setupTasks(t)
	told, gate := make(chan error, 1), make(chan struct{})
	b.spawn(s, id, "k", func(ctx context.Context, _ *workers.RunningTask) (string, error) {
		<-ctx.Done()
		told <- context.Cause(ctx)
		<-gate
		return "", context.Cause(ctx)
	})
	_, err := b.RequestCancelTask(b.ctx, id, "k", "enough")
	must(t, "request", err, nil)
	must(t, "what the task is told", receive(b, "told", told), workers.ErrTaskCancelled)
	before := b.last(id)
	must(t, "transition", b.TransitionBackgroundTask(b.ctx, id, "k", events.TaskRunning), nil)
	equal(t, "state", b.listed(id, "k").State, events.TaskCancelling)
	equal(t, "sequence", b.last(id), before)
	close(gate)
	equal(t, "reason", b.taskIs(id, "k", events.TaskCancelled).Reason, "enough")
}

func testTaskUnknown(t *testing.T) {
	b, id, _ := setupTasks(t)
	_, err := b.CancelTask(b.ctx, id, "x")
	must(t, "cancel", err, task.ErrUnknown)
	must(t, "cancel managed", b.CancelManagedTask(b.ctx, id, "x"), nil)
	list, err := b.Tasks(b.ctx, "no-such-session")
	must(t, "list", err, nil)
	equal(t, "tasks of no session", len(list), 0)
}

func testTaskCallback(t *testing.T) {
	b, id, _ := setupTasks(t)
	calls := make(chan string, 4)
	for _, name := range []events.TaskID{"near", "far"} {
		_, err := b.RegisterTask(b.ctx, id, api.TaskRequest{ID: name, OnCancel: func() { calls <- string(name) }})
		must(t, "register", err, nil)
	}
	for range 2 {
		rec, err := b.CancelTask(b.ctx, id, "near")
		must(t, "cancel", err, nil)
		equal(t, "state", rec.State, events.TaskCancelled)
	}
	equal(t, "called", receive(b, "calls", calls), "near")
	other := b.otherHost()
	for range 2 {
		_, err := other.CancelTask(b.ctx, id, "far")
		must(t, "cancel elsewhere", err, nil)
	}
	equal(t, "called", receive(b, "calls", calls), "far")
	equal(t, "more calls", len(calls), 0)
}

func testCancelAll(t *testing.T) {
	b, id, s := setupTasks(t)
	stopped := make(chan error, 1)
	b.outside(id, "c", "done")
	must(t, "complete", b.CompleteBackgroundTask(b.ctx, id, "done", events.TaskCompleted, ""), nil)
	b.spawn(s, id, "b", func(ctx context.Context, _ *workers.RunningTask) (string, error) {
		<-ctx.Done()
		stopped <- context.Cause(ctx)
		return "", nil
	})
	b.outside(id, "a")
	before := b.last(id)
	list, err := b.CancelAllBackgroundTasks(b.ctx, id)
	must(t, "cancel all", err, nil)
	var names []events.TaskID
	for _, rec := range list {
		names = append(names, rec.ID)
		equal(t, "state of "+string(rec.ID), rec.State, events.TaskCancelled)
	}
	equalLists(t, "cancelled", names, []events.TaskID{"c", "b", "a"})
	must(t, "what the closure is told", receive(b, "stopped", stopped), workers.ErrTaskCancelled)
	equal(t, "commits", b.last(id)-before, 1)
	equal(t, "done", b.listed(id, "done").State, events.TaskCompleted)
}

func testUnregister(t *testing.T) {
	b, id, s := setupTasks(t)
	gate, told := make(chan struct{}), make(chan string, 1)
	b.spawn(s, id, "k", func(ctx context.Context, r *workers.RunningTask) (string, error) {
		_, err := gated(gate)(ctx, r)
		told <- errText(err)
		return "", err
	})
	must(t, "unregister", b.UnregisterBackgroundTask(b.ctx, id, "k"), nil)
	must(t, "unregister again", b.UnregisterBackgroundTask(b.ctx, id, "k"), nil)
	equal(t, "listed", b.listed(id, "k").ID, "")
	b.spawn(s, id, "k2", gated(nil)) // a commit that the first task's runner hears of
	close(gate)
	equal(t, "the task's error", receive(b, "told", told), "")
	equal(t, "ends", len(find[*events.TaskEnded](b, id)), 0)
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
