package integration

import (
	"context"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// grace is the time that a stop may take. It tells when the stop begins to wait.
type grace struct {
	context.Context
	once  sync.Once
	waits chan struct{}
}

func (g *grace) Done() <-chan struct{} {
	g.once.Do(func() { close(g.waits) })
	return g.Context.Done()
}

// worker starts a worker on a connection of its own; a node adds what no drain of turns is about.
func (f *fleet) worker() *workers.Node { return f.workerOn(bustest.Open(f.t, f.server), 0) }

func (f *fleet) workerOn(on *bus.Bus, concurrency int) *workers.Node {
	f.t.Helper()
	w, err := workers.NewNode(workers.Config{
		Roles: turnRoles(),
		Bus:   on, Concurrency: concurrency, Providers: map[string]llm.Provider{"scripted": scripted.New(f.model)}, Provider: "scripted",
		Tools: func(events.SessionID) *plugin.Tools { return f.tools },
	})
	must(f.t, "worker", err, nil)
	must(f.t, "start", w.Start(f.ctx), nil)
	f.t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background()) // the test's own has ended
		cancel()
		w.Stop(now)
	})
	return w
}

// drain stops a worker softly and returns when that waits for calls in flight.
// The channel is closed when the worker has stopped.
func (f *fleet) drain(w *workers.Node) (stopped <-chan struct{}) {
	f.t.Helper()
	g, done := &grace{Context: f.ctx, waits: make(chan struct{})}, make(chan struct{})
	go func() { defer close(done); w.Stop(g) }()
	receive(f.bundle, "begin of the wait", g.waits)
	return done
}

// passed hears of wakes of turns that are queued, or given back by a worker.
func (f *fleet) passed() <-chan *nats.Msg {
	f.t.Helper()
	list := make(chan *nats.Msg, 64)
	for _, subject := range []string{"lash.work.turn.>", "$JS.EVENT.ADVISORY.CONSUMER.MSG_NAKED.lash-work.turn"} {
		sub, err := f.bus.Conn().ChanSubscribe(subject, list)
		must(f.t, "listen for wakes", err, nil)
		f.t.Cleanup(func() { _ = sub.Unsubscribe() })
	}
	must(f.t, "flush", f.bus.Conn().Flush(), nil)
	return list
}

// TestFleetDrain stops a worker softly while a call of its is in flight: what
// it comes to is recorded, the next worker goes on from there, and it gets the
// wake because it was given back, or because a new one replaced it, not because
// the first one was quiet.
func TestFleetDrain(t *testing.T) {
	t.Parallel()
	for _, during := range []string{"model", "tool"} {
		t.Run(during, func(t *testing.T) {
			t.Parallel()
			f := setupFleet(t)
			begun, release := make(chan struct{}), make(chan struct{})
			wait := func(at string) {
				if at == during {
					close(begun)
					<-release
				}
			}
			var tools []events.EffectID
			plugin.AddTool(f.tools, plugin.Tool{Name: "pay"}, func(_ context.Context, c plugin.Call, _ struct{}) (string, error) {
				tools = append(tools, c.Effect)
				wait("tool")
				return "paid", nil
			})
			f.answer = func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
				if req.Iteration > 0 {
					return reply(text("done"))(ctx, req)
				}
				wait("model")
				return reply(call("k", "pay", "{}"))(ctx, req)
			}
			first := f.worker()
			wakes := f.passed()
			id := f.open(api.CreateRequest{})
			f.submit(id, "t1", text("go"))
			receive(f.bundle, "wake of the turn", wakes)
			receive(f.bundle, "call in flight", begun)
			second := f.worker()
			stopped := f.drain(first)
			close(release)
			receive(f.bundle, "stop", stopped)
			receive(f.bundle, "wake given back or replaced", wakes)
			equal(t, "end", f.ended(id, "t1").End, events.EndFinished)
			equalLists(t, "messages", f.messages(id), []string{"user go", "assistant k:pay{}", "user k=paid", "assistant done"})
			equalLists(t, "tool runs", tools, []events.EffectID{"t1/0/0"})
			equal(t, "model calls", len(f.asked), 2)
			equal(t, "lost calls", len(find[*events.ToolLost](f.bundle, id)), 0)
			starts := find[*events.TurnStarted](f.bundle, id)
			equal(t, "attempts", len(starts), 2)
			equal(t, "first worker", starts[0].Worker, first.ID())
			equal(t, "second worker", starts[1].Worker, second.ID())
			equal(t, "releases", len(find[*events.TurnReleased](f.bundle, id)), 1)
			verified(t, f.bus, id)
		})
	}
}

// TestFleetDrainHard ends the grace of a stop while a model call is in flight: the job is given back all the same.
func TestFleetDrainHard(t *testing.T) {
	t.Parallel()
	f := setupFleet(t)
	begun := make(chan struct{})
	var once sync.Once
	f.answer = func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		hang := false
		once.Do(func() { hang = true })
		if hang {
			close(begun)
			<-ctx.Done()
			return scripted.Answer{}, context.Cause(ctx)
		}
		return reply(text("done"))(ctx, req)
	}
	first := f.worker()
	id := f.open(api.CreateRequest{})
	f.submit(id, "t1", text("go"))
	receive(f.bundle, "call in flight", begun)
	now, cancel := context.WithCancel(f.ctx)
	cancel()
	first.Stop(now)
	f.worker()
	equal(t, "end", f.ended(id, "t1").End, events.EndFinished)
	equal(t, "attempts", len(find[*events.TurnStarted](f.bundle, id)), 2)
}

// TestFleetDrainQueued stops a worker softly that has turns of one session queued, and others in its room.
func TestFleetDrainQueued(t *testing.T) {
	t.Parallel()
	f := setupFleet(t)
	begun, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	f.answer = func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		once.Do(func() { close(begun); <-release })
		return reply(text("done"))(ctx, req)
	}
	first := f.worker()
	f.flood("a", 5)
	receive(f.bundle, "call in flight", begun)
	f.await("a", "the queue", func(s *projector.State) bool { return len(s.Queue) == 4 })
	stopped := f.drain(first)
	close(release)
	receive(f.bundle, "stop", stopped)
	s := f.state("a")
	equal(t, "turns before the next worker", s.Turns, 1)
	equal(t, "queued", len(s.Queue), 4)
	f.worker()
	equal(t, "end", f.ended("a", "t4").End, events.EndFinished)
	equal(t, "turns", f.state("a").Turns, 5)
	f.unqueued("a")
}
