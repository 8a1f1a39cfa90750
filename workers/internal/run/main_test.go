package run

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/sessiontest"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/internal/call"
	"github.com/lash-go/lash/workers/internal/wake"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

func TestMain(m *testing.M) {
	bustest.VerifyTestMain(m)
}

const sid = sessiontest.ID

// bundle is a server with an open session, and a host of no worker.
type bundle struct{ *sessiontest.System }

func setup(t *testing.T) *bundle {
	t.Helper()
	return &bundle{sessiontest.Start(t)}
}

// pool creates a pool of another process, without starting it.
func (b *bundle) pool(id events.WorkerID, concurrency int, script scripted.Script, tools *plugin.Tools, more ...plugin.Factory) *Pool {
	b.T.Helper()
	on, log := bustest.Open(b.T, b.Server), zaptest.NewLogger(b.T)
	stack := plugin.BuilderConfig{Builtins: []plugin.Factory{standard.Factory()}, Factories: more}
	if tools != nil {
		stack.Factories = append(stack.Factories, plugin.OfTools("tools", func(events.SessionID) *plugin.Tools { return tools }))
	}
	plugins, err := plugin.NewBuilder(stack)
	if err != nil {
		b.T.Fatal(err)
	}
	host, err := session.New(session.Config{Bus: on, Actor: string(id), Plugins: session.WithPlugins(plugins)})
	if err != nil {
		b.T.Fatal(err)
	}
	calls := &call.Env{
		Bus: on, Worker: host.Worker(), Blobs: call.NewBlobCache(on), Log: log, RunsTools: true, Retry: call.Retry{Attempts: 1},
		Providers: map[string]llm.Provider{"scripted": scripted.New(script)}, Provider: "scripted",
	}
	p := New(Config{
		Bus: on, Worker: host.Worker(), Calls: calls, Peers: wake.NewPeers(on, id, "", log), ID: id, Linger: 2 * time.Millisecond, Patience: time.Minute,
		Retry: wake.Retry{Attempts: 3, Base: time.Millisecond, Max: time.Millisecond}, Concurrency: concurrency, Logger: log, QueueLost: func(bool) {},
	})
	host.Worker().Bind(session.Process{Worker: id, NeedsWorker: p.NeedsWorker, Complete: calls.Complete})
	return p
}

// start starts a pool until the end of the test.
func (b *bundle) start(p *Pool) *Pool {
	b.T.Helper()
	stop, err := p.cfg.Peers.Listen()
	if err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(stop)
	sessiontest.RunUntilEnd(b.T, p.Start, p.Stop)
	return p
}

// says is a model that replies to every request with a text.
func says(text string) scripted.Script {
	return func(context.Context, llm.Request) (scripted.Answer, error) {
		return scripted.Answer{Response: llm.Response{Stop: events.StopEnd, Parts: []events.Part{{Kind: events.PartText, Text: text}}}}, nil
	}
}

// gate is a model each of whose calls waits until the gate is opened.
type gate struct {
	asked chan events.TurnID
	ended chan error // of cancelled calls
	open  chan struct{}
}

func newGate() *gate {
	return &gate{asked: make(chan events.TurnID, 16), ended: make(chan error, 16), open: make(chan struct{})}
}

func (g *gate) script(then scripted.Script) scripted.Script {
	return func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		g.asked <- req.Turn
		select {
		case <-g.open:
			return then(ctx, req)
		case <-ctx.Done():
			g.ended <- context.Cause(ctx)
			return scripted.Answer{}, context.Cause(ctx)
		}
	}
}

func (b *bundle) submit(name events.TurnID) {
	b.T.Helper()
	req := api.Ask("go")
	req.ID = name
	if _, err := b.Host.Submit(b.T.Context(), sid, req); err != nil {
		b.T.Fatal(err)
	}
}

func (b *bundle) await(name events.TurnID) api.TurnResult {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), time.Minute)
	defer cancel()
	r, err := b.Host.Await(ctx, sid, name)
	if err != nil {
		b.T.Errorf("await %s: got %v", name, err)
	}
	return r
}

func (b *bundle) publish() {
	b.T.Helper()
	if err := b.Bus.PublishWake(bus.WakeKey{Class: bus.ClassTurn, Session: sid}, bus.WakeHint{}); err != nil {
		b.T.Fatal(err)
	}
}

// awaitWakes waits until the queue has that many wakes.
func (b *bundle) awaitWakes(n int) {
	b.T.Helper()
	bustest.Eventually(b.T, fmt.Sprintf("%d wakes", n), func() bool {
		wakes, err := b.Bus.Wakes(b.T.Context())
		if err != nil {
			b.T.Fatal(err)
		}
		return len(wakes) == n
	})
}

// idle waits until a pool has no runs.
func idle(t *testing.T, p *Pool) {
	t.Helper()
	bustest.Eventually(t, "the pool has no runs", func() bool { return p.Running() == 0 })
}

// unstarted is a run with a wake, of a pool that is not started. Turn t1 is queued in its session.
func (b *bundle) unstarted(p *Pool) *run {
	b.T.Helper()
	b.submit("t1")
	r := newRun(p, sid, bus.ClassTurn, b.FetchWake(p.cfg.Bus, bus.ClassTurn))
	p.runs[sid] = r
	if err := r.load(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(r.closeStack)
	return r
}

func sessionRequest(id events.SessionID) api.CreateRequest {
	return api.CreateRequest{ID: id}
}

func sessionAsk(id events.TurnID) api.TurnRequest {
	req := api.Ask("go")
	req.ID = id
	return req
}
