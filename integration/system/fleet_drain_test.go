package system

import (
	"context"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// grace is the time limit of a stop. It signals when the stop begins to wait.
type grace struct {
	context.Context
	once  sync.Once
	waits chan struct{}
}

func (g *grace) Done() <-chan struct{} {
	g.once.Do(func() { close(g.waits) })
	return g.Context.Done()
}

// worker starts a worker on a connection of its own, without the other services of a node.
func worker(f *harness.Fleet) *workers.Node { return workerOn(f, bustest.Open(f.T, f.Server), 0) }

func workerOn(f *harness.Fleet, on *bus.Bus, concurrency int) *workers.Node {
	f.T.Helper()
	w, err := workers.NewNode(workers.Config{
		Roles: harness.TurnRoles(),
		Bus:   on, Concurrency: concurrency, Providers: map[string]llm.Provider{"scripted": scripted.New(f.ModelCall)}, Provider: "scripted",
		Tools: func(events.SessionID) *plugin.Tools { return f.Tools },
	})
	runtest.WantError(f.T, "worker", err, nil)
	runtest.WantError(f.T, "start", w.Start(f.Ctx), nil)
	f.T.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background()) // the test's own has ended
		cancel()
		w.Stop(now)
	})
	return w
}

// drain stops a worker softly and returns when the worker waits for its in-flight calls. The channel is closed
// when the worker has stopped.
func drain(f *harness.Fleet, w *workers.Node) (stopped <-chan struct{}) {
	f.T.Helper()
	g, done := &grace{Context: f.Ctx, waits: make(chan struct{})}, make(chan struct{})
	go func() { defer close(done); w.Stop(g) }()
	harness.Receive(f.System, "begin of the wait", g.waits)
	return done
}

// passed receives the wakes of turns that are queued, or released by a worker.
func fleetPassed(f *harness.Fleet) <-chan *nats.Msg {
	f.T.Helper()
	list := make(chan *nats.Msg, 64)
	for _, subject := range []string{"lash.work.turn.>", "$JS.EVENT.ADVISORY.CONSUMER.MSG_NAKED.lash-work.turn"} {
		sub, err := f.Bus.Conn().ChanSubscribe(subject, list)
		runtest.WantError(f.T, "listen for wakes", err, nil)
		f.T.Cleanup(func() { _ = sub.Unsubscribe() })
	}
	runtest.WantError(f.T, "flush", f.Bus.Conn().Flush(), nil)
	return list
}

// TestSmokeFleetDrain stops a worker softly during a call. The call's result is recorded, and the next worker continues
// from it. That worker receives the wake because the first one released it or because a new wake replaced it, not
// because the first one was silent.
func TestSmokeFleetDrain(t *testing.T) {
	t.Parallel()
	for _, during := range []string{"model", "tool"} {
		t.Run(during, func(t *testing.T) {
			t.Parallel()
			f := harness.StartFleet(t)
			running, release := make(chan struct{}), make(chan struct{})
			wait := func(at string) {
				if at == during {
					close(running)
					<-release
				}
			}
			var tools []events.EffectID
			plugin.AddTool(f.Tools, plugin.Tool{Name: "pay"}, func(_ context.Context, c plugin.Call, _ struct{}) (string, error) {
				tools = append(tools, c.Effect)
				wait("tool")
				return "paid", nil
			})
			f.Reply = func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
				if req.Iteration > 0 {
					return harness.Reply(harness.Text("done"))(ctx, req)
				}
				wait("model")
				return harness.Reply(harness.Call("k", "pay", "{}"))(ctx, req)
			}
			first := worker(f)
			wakes := fleetPassed(f)
			id := f.Open(api.CreateRequest{})
			f.StartTurn(id, "t1", harness.Text("go"))
			harness.Receive(f.System, "wake of the turn", wakes)
			harness.Receive(f.System, "call in flight", running)
			second := worker(f)
			stopped := drain(f, first)
			close(release)
			harness.Receive(f.System, "stop", stopped)
			harness.Receive(f.System, "wake given back or replaced", wakes)
			runtest.Equal(t, "end", f.AwaitTurn(id, "t1").End, events.EndFinished)
			runtest.EqualLists(t, "messages", f.Messages(id), []string{"user go", "assistant k:pay{}", "user k=paid", "assistant done"})
			runtest.EqualLists(t, "tool runs", tools, []events.EffectID{"t1/0/0"})
			runtest.Equal(t, "model calls", len(f.Requested), 2)
			runtest.Equal(t, "lost calls", len(harness.Find[*events.ToolLost](f.System, id)), 0)
			starts := harness.Find[*events.TurnStarted](f.System, id)
			runtest.Equal(t, "attempts", len(starts), 2)
			runtest.Equal(t, "first worker", starts[0].Worker, first.ID())
			runtest.Equal(t, "second worker", starts[1].Worker, second.ID())
			runtest.Equal(t, "releases", len(harness.Find[*events.TurnReleased](f.System, id)), 1)
			harness.VerifyHistory(t, f.Bus, id)
		})
	}
}

// TestFleetDrainHard ends the grace of a stop during a model call: the worker still releases the job.
func TestFleetDrainHard(t *testing.T) {
	t.Parallel()
	f := harness.StartFleet(t)
	running := make(chan struct{})
	var once sync.Once
	f.Reply = func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		hang := false
		once.Do(func() { hang = true })
		if hang {
			close(running)
			<-ctx.Done()
			return scripted.Answer{}, context.Cause(ctx)
		}
		return harness.Reply(harness.Text("done"))(ctx, req)
	}
	first := worker(f)
	id := f.Open(api.CreateRequest{})
	f.StartTurn(id, "t1", harness.Text("go"))
	harness.Receive(f.System, "call in flight", running)
	now, cancel := context.WithCancel(f.Ctx)
	cancel()
	first.Stop(now)
	worker(f)
	runtest.Equal(t, "end", f.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.Equal(t, "attempts", len(harness.Find[*events.TurnStarted](f.System, id)), 2)
}

// TestFleetDrainQueued stops a worker softly that has turns of one session queued, and others in its prefetch
// buffer.
func TestFleetDrainQueued(t *testing.T) {
	t.Parallel()
	f := harness.StartFleet(t)
	running, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	f.Reply = func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		once.Do(func() { close(running); <-release })
		return harness.Reply(harness.Text("done"))(ctx, req)
	}
	first := worker(f)
	flood(f, "a", 5)
	harness.Receive(f.System, "call in flight", running)
	f.AwaitState("a", "the queue", func(s *projector.State) bool { return len(s.Queue) == 4 })
	stopped := drain(f, first)
	close(release)
	harness.Receive(f.System, "stop", stopped)
	s := f.StateOf("a")
	runtest.Equal(t, "turns before the next worker", s.Turns, 1)
	runtest.Equal(t, "queued", len(s.Queue), 4)
	worker(f)
	runtest.Equal(t, "end", f.AwaitTurn("a", "t4").End, events.EndFinished)
	runtest.Equal(t, "turns", f.StateOf("a").Turns, 5)
	f.AwaitUnqueued("a")
}
