package harness

import (
	"context"
	"sync"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
)

// StartTasks starts a tasks service that ends with the test. stop stops it at once.
func (b *System) StartTasks(on *bus.Bus, runners map[string]workers.TaskFunc) (s *workers.Tasks, stop func()) {
	b.T.Helper()
	n, err := workers.NewNode(workers.Config{Bus: on, Roles: []workers.Role{workers.RoleTask}, Runners: runners, Logger: zaptest.NewLogger(b.T)})
	runtest.NoError(b.T, err)
	if err := n.Start(b.Ctx); err != nil {
		b.T.Fatal(err)
	}
	var once sync.Once
	stop = func() {
		once.Do(func() {
			now, cancel := context.WithCancel(context.Background()) // in a cleanup the test's context has ended
			cancel()
			n.Stop(now)
		})
	}
	b.T.Cleanup(stop)
	return n.Tasks(), stop
}

// StartWithTasks returns a system, a session and a tasks service on a connection of its own.
func StartWithTasks(t *testing.T) (*System, events.SessionID, *workers.Tasks) {
	t.Helper()
	b := StartIdle(t)
	s, _ := b.StartTasks(bustest.Open(t, b.Server), nil)
	return b, b.Open(api.CreateRequest{}), s
}

// GatedTask runs until it is cancelled, or its gate is closed.
func GatedTask(gate <-chan struct{}) workers.TaskFunc {
	return func(ctx context.Context, _ *workers.RunningTask) (string, error) {
		select {
		case <-gate:
			return "the gate opened", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// Spawn starts a task of a session.
func (b *System) Spawn(s *workers.Tasks, id events.SessionID, name events.TaskID, work workers.TaskFunc) {
	b.T.Helper()
	if _, err := s.SpawnManaged(b.Ctx, id, api.TaskRequest{ID: name}, work); err != nil {
		b.T.Fatal(err)
	}
}

// ListedTask is the record of a task in the list, or the zero record.
func (b *System) ListedTask(id events.SessionID, name events.TaskID) projector.Task {
	b.T.Helper()
	list, err := b.Tasks(b.Ctx, id)
	runtest.NoError(b.T, err)
	for _, t := range list {
		if t.ID == name {
			return t
		}
	}
	return projector.Task{}
}

// AwaitTask waits until a task is in a state.
func (b *System) AwaitTask(id events.SessionID, name events.TaskID, state events.TaskState) projector.Task {
	b.T.Helper()
	s := b.AwaitState(id, string(name)+" "+string(state), func(s *projector.State) bool {
		t, ok := s.Task(name)
		return ok && t.State == state && t.To == ""
	})
	t, _ := s.Task(name)
	return *t
}
