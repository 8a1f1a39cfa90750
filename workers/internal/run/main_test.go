package run

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
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/internal/call"
	"github.com/lash-go/lash/workers/internal/wake"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

func TestMain(m *testing.M) {
	bustest.VerifyTestMain(m)
}

const sid events.SessionID = "s"

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

// pool creates a pool of another process, without starting it.
func (b *bundle) pool(id events.WorkerID, concurrency int, script scripted.Script, tools *plugin.Tools) *Pool {
	b.t.Helper()
	on, log := bustest.Open(b.t, b.server), zaptest.NewLogger(b.t)
	stack := plugin.HostConfig{Builtins: []plugin.Factory{standard.Factory()}}
	if tools != nil {
		stack.Factories = append(stack.Factories, plugin.OfTools("tools", func(events.SessionID) *plugin.Tools { return tools }))
	}
	plugins, err := plugin.NewHost(stack)
	if err != nil {
		b.t.Fatal(err)
	}
	calls := &call.Env{
		Bus: on, Blobs: call.NewBlobCache(on), Log: log, RunsTools: true, Retry: call.Retry{Attempts: 1},
		Providers: map[string]llm.Provider{"scripted": scripted.New(script)}, Provider: "scripted",
	}
	var p *Pool
	host, err := session.New(session.Config{
		Bus: on, Actor: string(id), Plugins: plugins, Complete: calls.Complete, Worker: id, Moved: func(id events.SessionID) { p.Hint(id) },
	})
	if err != nil {
		b.t.Fatal(err)
	}
	calls.Host = host
	p = New(Config{
		Bus: on, Host: host, Calls: calls, Peers: wake.NewPeers(on, id, "", log), ID: id, Linger: 2 * time.Millisecond, Patience: time.Minute,
		Retry: wake.Retry{Attempts: 3, Base: time.Millisecond, Max: time.Millisecond}, Concurrency: concurrency, Logger: log, Lost: func(bool) {},
	})
	return p
}

// start starts a pool until the end of the test.
func (b *bundle) start(p *Pool) *Pool {
	b.t.Helper()
	stop, err := p.cfg.Peers.Listen()
	if err == nil {
		err = p.Start(b.t.Context())
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background()) // the test's context has ended in a cleanup
		cancel()
		p.Stop(now)
		stop()
	})
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

// got waits for a value.
func got[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(time.Minute):
		t.Fatal("got nothing in a minute")
	}
	return v
}

func (b *bundle) submit(name events.TurnID) {
	b.t.Helper()
	req := api.Ask("go")
	req.ID = name
	if _, err := b.host.Submit(b.t.Context(), sid, req); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) await(name events.TurnID) api.TurnResult {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	r, err := b.host.Await(ctx, sid, name)
	if err != nil {
		b.t.Errorf("await %s: got %v", name, err)
	}
	return r
}

func (b *bundle) state() *projector.State {
	b.t.Helper()
	s, err := b.host.State(b.t.Context(), sid)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// append appends events of a turn as another worker, at the end of the log.
func (b *bundle) append(turn events.TurnID, list ...events.Payload) {
	b.t.Helper()
	c := &events.Commit{
		ID: events.CommitID(time.Now().Format("150405.000000000")), Session: sid,
		At: events.MillisOf(time.Now()), Actor: events.Actor{Kind: events.ActorNode, ID: "other"},
	}
	for _, p := range list {
		c.Events = append(c.Events, events.Of(turn, p))
	}
	if _, err := b.bus.Log().Append(b.t.Context(), c, b.state().Seq); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) publish() {
	b.t.Helper()
	if err := b.bus.PublishWake(bus.WakeKey{Class: bus.ClassTurn, Session: sid}, bus.WakeHint{}); err != nil {
		b.t.Fatal(err)
	}
}

// fetchWake fetches the session's wake without an ack.
func (b *bundle) fetchWake(on *bus.Bus) *bus.Wake {
	b.t.Helper()
	q, err := on.Queue(b.t.Context(), bus.ClassTurn)
	if err != nil {
		b.t.Fatal(err)
	}
	var w *bus.Wake
	if _, err := q.Fetch(b.t.Context(), 1, 20*time.Second, func(got *bus.Wake) { w = got }); err != nil || w == nil {
		b.t.Fatalf("fetch: got %v, %v, want a wake", w, err)
	}
	return w
}

// awaitWakes waits until the queue has that many wakes.
func (b *bundle) awaitWakes(n int) {
	b.t.Helper()
	bustest.Eventually(b.t, fmt.Sprintf("%d wakes", n), func() bool {
		wakes, err := b.bus.Wakes(b.t.Context())
		if err != nil {
			b.t.Fatal(err)
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
	b.t.Helper()
	b.submit("t1")
	r := newRun(p, sid, b.fetchWake(p.cfg.Bus))
	p.runs[sid] = r
	if err := r.load(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(r.closeStack)
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
