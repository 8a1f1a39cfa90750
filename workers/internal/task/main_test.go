package task

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/sessiontest"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/workers/internal/call"
	"github.com/lash-go/lash/workers/internal/wake"
)

func TestMain(m *testing.M) {
	bustest.VerifyTestMain(m)
}

// The session and the task of most tests.
const (
	sid                = sessiontest.ID
	name events.TaskID = "k"
)

// bundle is a server with an open session, and a host of no worker.
type bundle struct{ *sessiontest.System }

func setup(t *testing.T) *bundle {
	t.Helper()
	return &bundle{sessiontest.Start(t)}
}

// service creates the service of another process, without starting it. It runs one task at a time, of the runner r.
func (b *bundle) service(id events.WorkerID, work Func) *Service {
	b.T.Helper()
	on, log := bustest.Open(b.T, b.Server), zaptest.NewLogger(b.T)
	host, err := session.New(session.Config{Bus: on, Actor: string(id), Plugins: session.NoPlugins()})
	runtest.NoError(b.T, err)
	return New(Config{
		Bus: on, Worker: host.Worker().AsNode(), Calls: &call.Env{Bus: on, Worker: host.Worker(), Log: log}, Peers: wake.NewPeers(on, id, "", log), ID: id,
		Runners: map[string]Func{"r": work}, Retry: wake.Retry{Attempts: 3, Base: time.Millisecond, Max: time.Millisecond},
		TaskConcurrency: 1, ToolConcurrency: 1, Logger: log, QueueLost: func(bool) {},
	})
}

// start starts a service until the end of the test. It takes wakes of these classes.
func (b *bundle) start(s *Service, classes ...bus.Class) *Service {
	b.T.Helper()
	s.cfg.Classes = classes
	unlisten, err := s.cfg.Peers.Listen()
	runtest.NoError(b.T, err)
	b.T.Cleanup(unlisten)
	sessiontest.RunUntilEnd(b.T, s.Start, s.Stop)
	return s
}

func (b *bundle) register(req api.TaskRequest) projector.Task {
	b.T.Helper()
	if req.ID == "" {
		req.ID = name
	}
	rec, err := b.Host.RegisterTask(b.T.Context(), sid, req)
	runtest.NoError(b.T, err)
	return rec
}

// claim claims the task as another worker.
func (b *bundle) claim(worker events.WorkerID) projector.Task {
	b.T.Helper()
	rec := b.task()
	claimed, err := b.Host.Worker().ClaimTask(b.T.Context(), sid, task.ClaimOf(&rec), worker)
	runtest.NoError(b.T, err)
	return claimed
}

func (b *bundle) task() projector.Task {
	b.T.Helper()
	rec, err := b.Host.Task(b.T.Context(), sid, name)
	runtest.NoError(b.T, err)
	return rec
}

// awaitState waits until the task is in a state.
func (b *bundle) awaitState(want events.TaskState) projector.Task {
	b.T.Helper()
	var rec projector.Task
	bustest.Eventually(b.T, fmt.Sprintf("the task is %s", want), func() bool {
		rec = b.task()
		return rec.State == want
	})
	return rec
}

// awaitWakes waits until the queue has that many wakes of tasks.
func (b *bundle) awaitWakes(n int) {
	b.T.Helper()
	bustest.Eventually(b.T, fmt.Sprintf("%d wakes of tasks", n), func() bool {
		wakes, err := b.Bus.Wakes(b.T.Context())
		runtest.NoError(b.T, err)
		found := 0
		for key := range wakes {
			if key.Class != bus.ClassTurn {
				found++
			}
		}
		return found == n
	})
}

// fetchWake publishes a wake of the task and fetches it on a worker's bus.
func (b *bundle) fetchWake(on *Service, id events.TaskID) *bus.Wake {
	b.T.Helper()
	runtest.NoError(b.T, on.cfg.Bus.StoreWake(b.T.Context(), bus.WakeKey{Class: bus.ClassTask, Session: sid, Task: id}, bus.WakeHint{}))
	return b.FetchWake(on.cfg.Bus, bus.ClassTask)
}

// blocked is the work of a task that waits for the end of its context, or for its release.
type blocked struct {
	started chan *Running
	causes  chan error // why its context ended
	release chan struct{}
}

func newBlocked() *blocked {
	return &blocked{started: make(chan *Running, 4), causes: make(chan error, 4), release: make(chan struct{})}
}

func (w *blocked) run(ctx context.Context, r *Running) (string, error) {
	w.started <- r
	select {
	case <-ctx.Done():
		w.causes <- context.Cause(ctx)
		return "", context.Cause(ctx)
	case <-w.release:
		return "done", nil
	}
}
