package task

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/workers/internal/call"
	"github.com/lash-go/lash/workers/internal/wake"
)

func TestMain(m *testing.M) {
	bustest.VerifyTestMain(m)
}

// The session and the task of most tests.
const (
	sid  events.SessionID = "s"
	name events.TaskID    = "k"
)

// bundle is a server with an open session, and a host of no worker.
type bundle struct {
	t      *testing.T
	server *busembed.Server
	bus    *bus.Bus
	host   *session.Host
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{t: t, server: bustest.Server(t, busembed.Config{})}
	b.bus = bustest.Open(t, b.server)
	var err error
	if b.host, err = session.New(session.Config{Bus: b.bus, NoPlugins: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.host.Create(t.Context(), api.CreateRequest{ID: sid}); err != nil {
		t.Fatal(err)
	}
	return b
}

// service creates the service of another process, without starting it. It runs one task at a time, of the runner r.
func (b *bundle) service(id events.WorkerID, work Func) *Service {
	b.t.Helper()
	on, log := bustest.Open(b.t, b.server), zaptest.NewLogger(b.t)
	host, err := session.New(session.Config{Bus: on, Actor: string(id), Kind: events.ActorNode, NoPlugins: true})
	if err != nil {
		b.t.Fatal(err)
	}
	return New(Config{
		Bus: on, Host: host, Calls: &call.Env{Bus: on, Host: host, Log: log}, Peers: wake.NewPeers(on, id, "", log), ID: id,
		Runners: map[string]Func{"r": work}, Retry: wake.Retry{Attempts: 3, Base: time.Millisecond, Max: time.Millisecond},
		TaskConcurrency: 1, ToolConcurrency: 1, Logger: log, Lost: func(bool) {},
	})
}

// start starts a service until the end of the test. It takes wakes of these classes.
func (b *bundle) start(s *Service, classes ...bus.Class) *Service {
	b.t.Helper()
	s.cfg.Classes = classes
	unlisten, err := s.cfg.Peers.Listen()
	if err == nil {
		err = s.Start(b.t.Context())
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background()) // the test's context has ended in a cleanup
		cancel()
		s.Stop(now)
		unlisten()
	})
	return s
}

func (b *bundle) register(req api.TaskRequest) projector.Task {
	b.t.Helper()
	if req.ID == "" {
		req.ID = name
	}
	rec, err := b.host.RegisterTask(b.t.Context(), sid, req)
	if err != nil {
		b.t.Fatal(err)
	}
	return rec
}

// claim claims the task as another worker.
func (b *bundle) claim(worker events.WorkerID) projector.Task {
	b.t.Helper()
	rec := b.task()
	claimed, err := b.host.ClaimTask(b.t.Context(), sid, task.ClaimOf(&rec), worker)
	if err != nil {
		b.t.Fatal(err)
	}
	return claimed
}

func (b *bundle) task() projector.Task {
	b.t.Helper()
	rec, err := b.host.Task(b.t.Context(), sid, name)
	if err != nil {
		b.t.Fatal(err)
	}
	return rec
}

// awaitState waits until the task is in a state.
func (b *bundle) awaitState(want events.TaskState) projector.Task {
	b.t.Helper()
	var rec projector.Task
	bustest.Eventually(b.t, fmt.Sprintf("the task is %s", want), func() bool {
		rec = b.task()
		return rec.State == want
	})
	return rec
}

// awaitWakes waits until the queue has that many wakes of tasks.
func (b *bundle) awaitWakes(n int) {
	b.t.Helper()
	bustest.Eventually(b.t, fmt.Sprintf("%d wakes of tasks", n), func() bool {
		wakes, err := b.bus.Wakes(b.t.Context())
		if err != nil {
			b.t.Fatal(err)
		}
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
	b.t.Helper()
	if err := on.cfg.Bus.StoreWake(b.t.Context(), bus.WakeKey{Class: bus.ClassTask, Session: sid, Task: id}, bus.WakeHint{}); err != nil {
		b.t.Fatal(err)
	}
	q, err := on.cfg.Bus.Queue(b.t.Context(), bus.ClassTask)
	if err != nil {
		b.t.Fatal(err)
	}
	var w *bus.Wake
	if _, err := q.Fetch(b.t.Context(), 1, 20*time.Second, func(got *bus.Wake) { w = got }); err != nil || w == nil {
		b.t.Fatalf("fetch: got %v, %v, want a wake", w, err)
	}
	return w
}

// got is the next value.
func got[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(30 * time.Second):
		t.Fatal("got nothing in 30 s")
	}
	return v
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
