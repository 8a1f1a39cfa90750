package integration

import (
	"context"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/workers"
)

// TestFleetRoles has nodes that each do one thing: what one does not do waits for the one that does.
func TestFleetRoles(t *testing.T) {
	t.Parallel()
	f := setupFleet(t)
	runners := map[string]workers.TaskFunc{"work": func(context.Context, *workers.RunningTask) (string, error) { return "done", nil }}
	with := func(role workers.Role) *workers.Node {
		n := f.join(workers.Config{Roles: []workers.Role{role}, Runners: runners})
		for _, r := range workers.Roles() {
			equal(t, "node of "+string(role)+" has "+string(r), n.Has(r), r == role)
		}
		return n
	}
	id := f.open(session.CreateRequest{})
	with(workers.RoleAPI)
	with(workers.RoleTask)
	f.submit(id, "t1", text("go"))
	_, err := f.RegisterTask(f.ctx, id, session.TaskRequest{ID: "k", Runner: "work"})
	must(t, "register", err, nil)
	f.taskIs(id, "k", events.TaskCompleted)
	equal(t, "turns without a node for them", f.state(id).Turns, 0)

	runner := with(workers.RoleTurn)
	equal(t, "end", f.ended(id, "t1").End, events.EndFinished)
	equal(t, "worker", find[*events.TurnStarted](f.bundle, id)[0].Worker, runner.ID())
	row, err := f.bus.Directory().Get(f.ctx, id)
	must(t, "directory", err, nil)
	equal(t, "rows without a node for them", row.Revision, 0)

	// What a node without the role spawns itself it runs all the same.
	must(t, "spawn", runner.Tasks().SpawnHiddenTask(f.ctx, id, "own", func(context.Context) error { return nil }), nil)
	must(t, "await", runner.Tasks().AwaitHiddenTasks(f.ctx, id), nil)
	_, err = runner.Tasks().SpawnManaged(f.ctx, id, session.TaskRequest{ID: "own"}, func(context.Context, *workers.RunningTask) (string, error) { return "mine", nil })
	must(t, "spawn", err, nil)
	equal(t, "summary", f.taskIs(id, "own", events.TaskCompleted).Summary, "mine")

	with(workers.RoleProjector)
	f.row(id)
}

// row waits for the session's row in the directory.
func (f *fleet) row(id events.SessionID) bus.Row {
	f.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond) // the bucket tells nobody
	defer tick.Stop()
	for {
		row, err := f.bus.Directory().Get(f.ctx, id)
		must(f.t, "directory", err, nil)
		if row.Revision != 0 {
			return row
		}
		receive(f.bundle, "row", tick.C)
	}
}

// TestFleetTaskShare has room for one task a node: the second task goes to the other node.
func TestFleetTaskShare(t *testing.T) {
	t.Parallel()
	f := setupFleet(t)
	id := f.open(session.CreateRequest{})
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
		f.join(workers.Config{Roles: []workers.Role{workers.RoleTask}, TaskConcurrency: 1, Runners: runners})
	}
	for _, name := range []events.TaskID{"one", "two", "three"} {
		_, err := f.RegisterTask(f.ctx, id, session.TaskRequest{ID: name, Runner: "work"})
		must(t, "register", err, nil)
	}
	s := f.await(id, "two tasks", func(s *projector.State) bool {
		one, _ := s.Task("one")
		two, _ := s.Task("two")
		three, _ := s.Task("three")
		return one.Attempt+two.Attempt+three.Attempt == 2
	})
	seen := make(map[events.WorkerID]int)
	for _, rec := range s.Tasks {
		seen[rec.Worker]++
	}
	equal(t, "workers and nobody", len(seen), 3)
	close(done)
	for _, name := range []events.TaskID{"one", "two", "three"} {
		f.taskIs(id, name, events.TaskCompleted)
	}
}
