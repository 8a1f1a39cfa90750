package system

import (
	"context"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
)

// TestFleetRoles has nodes with one role each: work of another role waits for the node that has it.
func TestFleetRoles(t *testing.T) {
	t.Parallel()
	f := harness.StartFleet(t)
	runners := map[string]workers.TaskFunc{"work": func(context.Context, *workers.RunningTask) (string, error) { return "done", nil }}
	with := func(role workers.Role) *workers.Node {
		n := f.Join(workers.Config{Roles: []workers.Role{role}, Runners: runners})
		for _, r := range workers.Roles() {
			runtest.Equal(t, "node of "+string(role)+" has "+string(r), n.Has(r), r == role)
		}
		return n
	}
	id := f.Open(api.CreateRequest{})
	with(workers.RoleAPI)
	with(workers.RoleTask)
	f.StartTurn(id, "t1", harness.Text("go"))
	_, err := f.RegisterTask(f.Ctx, id, api.TaskRequest{ID: "k", Runner: "work"})
	runtest.WantError(t, "register", err, nil)
	f.AwaitTask(id, "k", events.TaskCompleted)
	runtest.Equal(t, "turns without a node for them", f.StateOf(id).Turns, 0)

	runner := with(workers.RoleTurn)
	runtest.Equal(t, "end", f.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.Equal(t, "worker", harness.Find[*events.TurnStarted](f.System, id)[0].Worker, runner.ID())
	row, err := f.Bus.Directory().Get(f.Ctx, id)
	runtest.WantError(t, "directory", err, nil)
	runtest.Equal(t, "rows without a node for them", row.Revision, 0)

	// A node runs a task that it spawns itself, also without the role.
	runtest.WantError(t, "spawn", runner.Tasks().SpawnHiddenTask(f.Ctx, id, "own", func(context.Context) error { return nil }), nil)
	runtest.WantError(t, "await", runner.Tasks().AwaitHiddenTasks(f.Ctx, id), nil)
	_, err = runner.Tasks().SpawnManaged(f.Ctx, id, api.TaskRequest{ID: "own"}, func(context.Context, *workers.RunningTask) (string, error) { return "mine", nil })
	runtest.WantError(t, "spawn", err, nil)
	runtest.Equal(t, "summary", f.AwaitTask(id, "own", events.TaskCompleted).Summary, "mine")

	with(workers.RoleProjector)
	directoryRow(f, id)
}

// directoryRow waits for the session's row in the directory.
func directoryRow(f *harness.Fleet, id events.SessionID) bus.Row {
	f.T.Helper()
	var row bus.Row
	f.AwaitPolling("row", func() bool {
		var err error
		row, err = f.Bus.Directory().Get(f.Ctx, id)
		runtest.WantError(f.T, "directory", err, nil)
		return row.Revision != 0
	})
	return row
}

// TestFleetTaskShare has capacity for one task a node: the second task runs on the other node.
func TestFleetTaskShare(t *testing.T) {
	t.Parallel()
	f := harness.StartFleet(t)
	id := f.Open(api.CreateRequest{})
	done := make(chan struct{})
	runners := map[string]workers.TaskFunc{"work": func(ctx context.Context, _ *workers.RunningTask) (string, error) {
		select {
		case <-done:
			return "done", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}}
	for range 2 {
		f.Join(workers.Config{Roles: []workers.Role{workers.RoleTask}, TaskConcurrency: 1, Runners: runners})
	}
	for _, name := range []events.TaskID{"one", "two", "three"} {
		_, err := f.RegisterTask(f.Ctx, id, api.TaskRequest{ID: name, Runner: "work"})
		runtest.WantError(t, "register", err, nil)
	}
	s := f.AwaitState(id, "two tasks", func(s *projector.State) bool {
		one, _ := s.Task("one")
		two, _ := s.Task("two")
		three, _ := s.Task("three")
		return one.Attempt+two.Attempt+three.Attempt == 2
	})
	seen := make(map[events.WorkerID]int)
	for _, rec := range s.Tasks {
		seen[rec.Worker]++
	}
	runtest.Equal(t, "workers and nobody", len(seen), 3)
	close(done)
	for _, name := range []events.TaskID{"one", "two", "three"} {
		f.AwaitTask(id, name, events.TaskCompleted)
	}
}
