package integration

import (
	"context"
	"strings"
	"sync"
	"testing"

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

// errand is a portable tool "run" and one, "stay", that is not. It keeps on which node each ran.
type errand struct {
	effects events.Effects
	begun   chan string // the node, of "run"
	hold    func(ctx context.Context) error

	mu   sync.Mutex
	runs []string // "node tool args"
}

func (e *errand) on(node string) func(events.SessionID) *plugin.Tools {
	type in struct {
		Text string `json:"text"`
	}
	note := func(tool string, in in) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.runs = append(e.runs, node+" "+tool+" "+short(in.Text))
	}
	return func(events.SessionID) *plugin.Tools {
		tools := plugin.NewTools()
		plugin.AddTool(tools, plugin.Tool{Name: "run", Effects: e.effects, Portable: true}, func(ctx context.Context, _ plugin.Call, in in) (string, error) {
			note("run", in)
			if e.begun != nil {
				e.begun <- node
			}
			if e.hold != nil {
				if err := e.hold(ctx); err != nil {
					return "", err
				}
			}
			return "ran " + short(in.Text), nil
		})
		plugin.AddTool(tools, plugin.Tool{Name: "stay"}, func(_ context.Context, _ plugin.Call, in in) (string, error) {
			note("stay", in)
			return "stayed " + in.Text, nil
		})
		return tools
	}
}

func short(s string) string { return s[:min(len(s), 8)] }

// turnsOnly starts a node that runs turns and none of their portable tools.
func (f *fleet) turnsOnly(e *errand) *workers.Node {
	return f.join(workers.Config{Roles: []workers.Role{workers.RoleTurn}, Concurrency: 1, Tools: e.on("turns")})
}

// toolsOnly starts a node that runs tools.
func (f *fleet) toolsOnly(name string, on *bus.Bus, e *errand) *workers.Node {
	return f.joinOn(on, workers.Config{Roles: []workers.Role{workers.RoleTool}, Tools: e.on(name)})
}

// calls makes the model ask for these calls first, and answer then.
func (f *fleet) calls(parts ...events.Part) {
	f.answer = func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		if req.Iteration == 0 && req.Session != "other" {
			return reply(parts...)(ctx, req)
		}
		return reply(text("done"))(ctx, req)
	}
}

// TestFleetTool has one node for turns and one for tools: a portable call waits
// for the other, without a place among the turns; what is bound to the turn runs there.
func TestFleetTool(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 100<<10)
	f, e := setupFleet(t), &errand{}
	f.calls(call("a", "run", `{"text":"one"}`), call("b", "stay", `{"text":"two"}`), call("c", "run", `{"text":"`+large+`"}`), call("d", "run", `{"text":3}`))
	f.turnsOnly(e)
	id := f.open(api.CreateRequest{})
	f.submit(id, "t1", text("go"))
	f.unqueued(id)
	equal(t, "runs while no node takes tools", len(e.runs), 1)
	f.flood("other", 1)
	equal(t, "another session's turn meanwhile", f.ended("other", "t0").End, events.EndFinished)
	tools := f.toolsOnly("tools", bustest.Open(t, f.server), e)
	equal(t, "end", f.ended(id, "t1").End, events.EndFinished)
	list := f.messages(id)
	equal(t, "messages", len(list), 4)
	if got := list[2]; !strings.HasPrefix(got, "user a=ran one b=stayed two c=ran xxxxxxxx d=[failed]") {
		t.Errorf("results: got %.200s, want each call's own", got)
	}
	equal(t, "runs", len(e.runs), 3)
	equal(t, "bound to the turn", e.runs[0], "turns stay two")
	for _, run := range e.runs[1:] {
		equal(t, "node", strings.HasPrefix(run, "tools run"), true)
	}
	for _, s := range find[*events.TaskStarted](f.bundle, id) {
		equal(t, "worker", s.Worker, tools.ID())
	}
	verified(t, f.bus, id)
}

// TestFleetToolGone takes the node away in the middle of a call. One that must
// not run twice is lost, and the model sees it; the other is run again.
func TestFleetToolGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		effects events.Effects
		cut     bool // from the server; else it is stopped at once
		runs    int
		read    string
	}{
		"once_stopped":       {events.EffectsNonIdempotent, false, 1, projector.LostText},
		"once_cut":           {events.EffectsNonIdempotent, true, 1, projector.LostText},
		"repeatable_stopped": {events.EffectsIdempotent, false, 2, "ran one"},
		"repeatable_cut":     {events.EffectsIdempotent, true, 2, "ran one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setupFleet(t)
			e := &errand{effects: c.effects, begun: make(chan string, 2)}
			var once sync.Once
			e.hold = func(ctx context.Context) error {
				first := false
				once.Do(func() { first = true })
				if first {
					<-ctx.Done()
				}
				return ctx.Err()
			}
			f.calls(call("a", "run", `{"text":"one"}`))
			f.turnsOnly(e)
			away := bustest.Open(t, f.server)
			first := f.toolsOnly("first", away, e)
			id := f.open(api.CreateRequest{})
			f.submit(id, "t1", text("go"))
			equal(t, "node", receive(f.bundle, "call", e.begun), "first")
			f.toolsOnly("second", bustest.Open(t, f.server), e)
			if c.cut {
				away.Close()
			} else {
				now, cancel := context.WithCancel(f.ctx)
				cancel()
				first.Stop(now)
			}
			equal(t, "end", f.ended(id, "t1").End, events.EndFinished)
			equal(t, "what the model reads", f.messages(id)[2], "user a="+c.read)
			e.mu.Lock()
			equal(t, "runs", len(e.runs), c.runs)
			e.mu.Unlock()
			verified(t, f.bus, id)
		})
	}
}

// TestFleetToolDrain stops the node softly in the middle of a call that must not run twice: its result counts.
func TestFleetToolDrain(t *testing.T) {
	t.Parallel()
	f := setupFleet(t)
	release := make(chan struct{})
	e := &errand{begun: make(chan string, 1), hold: func(context.Context) error { <-release; return nil }}
	f.calls(call("a", "run", `{"text":"one"}`))
	f.turnsOnly(e)
	node := f.toolsOnly("tools", bustest.Open(t, f.server), e)
	id := f.open(api.CreateRequest{})
	f.submit(id, "t1", text("go"))
	receive(f.bundle, "call", e.begun)
	g, stopped := &grace{Context: f.ctx, waits: make(chan struct{})}, make(chan struct{})
	go func() { defer close(stopped); node.Stop(g) }()
	receive(f.bundle, "begin of the wait", g.waits)
	close(release)
	receive(f.bundle, "stop", stopped)
	equal(t, "end", f.ended(id, "t1").End, events.EndFinished)
	equal(t, "what the model reads", f.messages(id)[2], "user a=ran one")
}

// TestFleetToolCancel cancels the turn, or the call alone, while another node runs it.
func TestFleetToolCancel(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cancel func(f *fleet, id events.SessionID)
		end    events.TurnEnd
	}{
		"turn": {func(f *fleet, id events.SessionID) {
			f.cancel(id, "t1", api.CancelRequest{ID: "r"}, api.CancelRequested)
		}, events.EndCancelled},
		"call": {func(f *fleet, id events.SessionID) {
			_, err := f.CancelTask(f.ctx, id, f.state(id).Tasks[0].ID)
			must(f.t, "cancel", err, nil)
		}, events.EndFinished},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setupFleet(t)
			gone := make(chan struct{})
			e := &errand{begun: make(chan string, 1), hold: func(ctx context.Context) error { <-ctx.Done(); close(gone); return ctx.Err() }}
			f.calls(call("a", "run", `{"text":"one"}`))
			f.turnsOnly(e)
			f.toolsOnly("tools", bustest.Open(t, f.server), e)
			id := f.open(api.CreateRequest{})
			f.submit(id, "t1", text("go"))
			receive(f.bundle, "call", e.begun)
			f.unqueued(id)
			c.cancel(f, id)
			receive(f.bundle, "end of the tool's context", gone)
			equal(t, "end", f.ended(id, "t1").End, c.end)
			f.await(id, "end of the task", func(s *projector.State) bool { return !s.Tasks[0].Live() })
			equal(t, "runs", len(e.runs), 1)
		})
	}
}

// TestFleetToolOtherTurn has another turn be refused while t1 waits for a call: the call goes on, and t1 with it.
func TestFleetToolOtherTurn(t *testing.T) {
	t.Parallel()
	f := setupFleet(t)
	release := make(chan struct{})
	e := &errand{begun: make(chan string, 1), hold: func(ctx context.Context) error {
		select {
		case <-ctx.Done():
		case <-release:
		}
		return ctx.Err()
	}}
	f.calls(call("a", "run", `{"text":"one"}`))
	f.turnsOnly(e)
	on := bustest.Open(t, f.server)
	f.toolsOnly("tools", on, e)
	id := f.open(api.CreateRequest{})
	f.submit(id, "t1", text("go"))
	receive(f.bundle, "call", e.begun)
	f.unqueued(id)
	ends := make(chan struct{}, 8)
	stop, err := on.Hear(id, func(m bus.LiveMessage) {
		if m.Ends {
			ends <- struct{}{}
		}
	})
	must(t, "hear", err, nil)
	defer stop()
	must(t, "flush", on.Conn().Flush(), nil)
	_, err = f.Submit(f.ctx, id, asksBusy("t2", api.WhenBusyReject))
	must(t, "submit", err, nil)
	receive(f.bundle, "end of t2 where the tool runs", ends)
	close(release)
	equal(t, "end of t2", f.ended(id, "t2").End, events.EndRejected)
	equal(t, "end of t1", f.ended(id, "t1").End, events.EndFinished)
	equal(t, "what the model reads", f.messages(id)[2], "user a=ran one")
	verified(t, f.bus, id)
}
