package system

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

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

// workload is a portable tool "run" and a tool "stay", which is not portable. It records on which node each ran.
type fleetWorkload struct {
	effects events.Effects
	started chan string // the node, of "run"
	block   func(ctx context.Context) error

	mu   sync.Mutex
	runs []string // "node tool args"
}

func (e *fleetWorkload) on(node string) func(events.SessionID) *plugin.Tools {
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
			if e.started != nil {
				e.started <- node
			}
			if e.block != nil {
				if err := e.block(ctx); err != nil {
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
func turnsOnly(f *harness.Fleet, e *fleetWorkload) *workers.Node {
	return f.Join(workers.Config{Roles: []workers.Role{workers.RoleTurn}, Concurrency: 1, Tools: e.on("turns")})
}

// toolsOnly starts a node that runs tools.
func toolsOnly(f *harness.Fleet, name string, on *bus.Bus, e *fleetWorkload) *workers.Node {
	return f.JoinOn(on, workers.Config{Roles: []workers.Role{workers.RoleTool}, Tools: e.on(name)})
}

// callFirst makes the model call these tools first, and reply then.
func callFirst(f *harness.Fleet, parts ...events.Part) {
	f.Reply = func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		if req.Iteration == 0 && req.Session != "other" {
			return harness.Reply(parts...)(ctx, req)
		}
		return harness.Reply(harness.Text("done"))(ctx, req)
	}
}

// TestSmokeFleetTool has one node for turns and one for tools. A portable call runs on the other node, and does not
// occupy a slot for turns there. A call that is bound to the turn runs on the turn's node.
func TestSmokeFleetTool(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 100<<10)
	f, e := harness.StartFleet(t), &fleetWorkload{}
	callFirst(f, harness.Call("a", "run", `{"text":"one"}`), harness.Call("b", "stay", `{"text":"two"}`), harness.Call("c", "run", `{"text":"`+large+`"}`), harness.Call("d", "run", `{"text":3}`))
	turnsOnly(f, e)
	id := f.Open(api.CreateRequest{})
	f.StartTurn(id, "t1", harness.Text("go"))
	f.AwaitUnqueued(id)
	runtest.Equal(t, "runs while no node takes tools", len(e.runs), 1)
	flood(f, "other", 1)
	runtest.Equal(t, "another session's turn meanwhile", f.AwaitTurn("other", "t0").End, events.EndFinished)
	tools := toolsOnly(f, "tools", bustest.Open(t, f.Server), e)
	runtest.Equal(t, "end", f.AwaitTurn(id, "t1").End, events.EndFinished)
	list := f.Messages(id)
	runtest.Equal(t, "messages", len(list), 4)
	if got := list[2]; !strings.HasPrefix(got, "user a=ran one b=stayed two c=ran xxxxxxxx d=[failed]") {
		t.Errorf("results: got %.200s, want each call's own", got)
	}
	runtest.Equal(t, "runs", len(e.runs), 3)
	runtest.Equal(t, "bound to the turn", e.runs[0], "turns stay two")
	for _, run := range e.runs[1:] {
		runtest.Equal(t, "node", strings.HasPrefix(run, "tools run"), true)
	}
	for _, s := range harness.Find[*events.TaskStarted](f.System, id) {
		runtest.Equal(t, "worker", s.Worker, tools.ID())
	}
	harness.VerifyHistory(t, f.Bus, id)
}

// TestFleetWaitingCallLeavesItsPlace has a node with one place: for turns, or for calls of other nodes' turns. A call there waits for a turn
// that needs the place, or whose call does.
func TestFleetWaitingCallLeavesItsPlace(t *testing.T) {
	t.Parallel()
	for _, portable := range []bool{false, true} {
		t.Run(fmt.Sprintf("portable_%t", portable), func(t *testing.T) {
			t.Parallel()
			f := harness.StartFleet(t)
			first, second := f.Open(api.CreateRequest{}), f.Open(api.CreateRequest{})
			called, submitted := make(chan struct{}, 1), make(chan struct{})
			tools := func(events.SessionID) *plugin.Tools {
				set := plugin.NewTools()
				plugin.AddTool(set, plugin.Tool{Name: "run", Effects: events.EffectsIdempotent, Portable: portable}, func(ctx context.Context, call plugin.Call, _ struct{}) (string, error) {
					if call.Session != first {
						return "ran", nil
					}
					called <- struct{}{}
					<-submitted
					got, err := call.Host.AwaitTurn(ctx, second, "t1")
					return "waited for " + string(got.Turn), err
				})
				return set
			}
			callFirst(f, harness.Call("a", "run", `{}`))
			f.Join(workers.Config{Roles: []workers.Role{workers.RoleTurn}, Concurrency: 1, Tools: tools})
			if portable {
				f.Join(workers.Config{Roles: []workers.Role{workers.RoleTool}, ToolConcurrency: 1, Tools: tools})
			}
			f.StartTurn(first, "t1", harness.Text("go"))
			harness.Receive(f.System, "the call that waits", called)
			f.StartTurn(second, "t1", harness.Text("go"))
			close(submitted)
			runtest.Equal(t, "end", f.AwaitTurn(first, "t1").End, events.EndFinished)
			runtest.Equal(t, "result", f.CallResult(first, "a"), "waited for t1")
		})
	}
}

// TestFleetToolGone stops the node in the middle of a call. A call that must not run twice is lost, and the model
// reads that; the other call runs again.
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
			f := harness.StartFleet(t)
			e := &fleetWorkload{effects: c.effects, started: make(chan string, 2)}
			var once sync.Once
			e.block = func(ctx context.Context) error {
				first := false
				once.Do(func() { first = true })
				if first {
					<-ctx.Done()
				}
				return ctx.Err()
			}
			callFirst(f, harness.Call("a", "run", `{"text":"one"}`))
			turnsOnly(f, e)
			secondBus := bustest.Open(t, f.Server)
			first := toolsOnly(f, "first", secondBus, e)
			id := f.Open(api.CreateRequest{})
			f.StartTurn(id, "t1", harness.Text("go"))
			runtest.Equal(t, "node", harness.Receive(f.System, "call", e.started), "first")
			toolsOnly(f, "second", bustest.Open(t, f.Server), e)
			if c.cut {
				secondBus.Close()
			} else {
				now, cancel := context.WithCancel(f.Ctx)
				cancel()
				first.Stop(now)
			}
			runtest.Equal(t, "end", f.AwaitTurn(id, "t1").End, events.EndFinished)
			runtest.Equal(t, "what the model reads", f.Messages(id)[2], "user a="+c.read)
			e.mu.Lock()
			runtest.Equal(t, "runs", len(e.runs), c.runs)
			e.mu.Unlock()
			harness.VerifyHistory(t, f.Bus, id)
		})
	}
}

// TestFleetToolDrain stops the node softly in the middle of a call that must not run twice: its result counts.
func TestFleetToolDrain(t *testing.T) {
	t.Parallel()
	f := harness.StartFleet(t)
	release := make(chan struct{})
	e := &fleetWorkload{started: make(chan string, 1), block: func(context.Context) error { <-release; return nil }}
	callFirst(f, harness.Call("a", "run", `{"text":"one"}`))
	turnsOnly(f, e)
	node := toolsOnly(f, "tools", bustest.Open(t, f.Server), e)
	id := f.Open(api.CreateRequest{})
	f.StartTurn(id, "t1", harness.Text("go"))
	harness.Receive(f.System, "call", e.started)
	g, stopped := &grace{Context: f.Ctx, waits: make(chan struct{})}, make(chan struct{})
	go func() { defer close(stopped); node.Stop(g) }()
	harness.Receive(f.System, "begin of the wait", g.waits)
	close(release)
	harness.Receive(f.System, "stop", stopped)
	runtest.Equal(t, "end", f.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.Equal(t, "what the model reads", f.Messages(id)[2], "user a=ran one")
}

// TestFleetToolCancel cancels the turn, or the call alone, while another node runs it.
func TestFleetToolCancel(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cancel func(f *harness.Fleet, id events.SessionID)
		end    events.TurnEnd
	}{
		"turn": {func(f *harness.Fleet, id events.SessionID) {
			f.CancelTurn(id, "t1", api.CancelRequest{ID: "r"}, api.CancelRequested)
		}, events.EndCancelled},
		"call": {func(f *harness.Fleet, id events.SessionID) {
			_, err := f.CancelTask(f.Ctx, id, f.StateOf(id).Tasks[0].ID)
			runtest.WantError(f.T, "cancel", err, nil)
		}, events.EndFinished},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := harness.StartFleet(t)
			ended := make(chan struct{})
			e := &fleetWorkload{started: make(chan string, 1), block: func(ctx context.Context) error { <-ctx.Done(); close(ended); return ctx.Err() }}
			callFirst(f, harness.Call("a", "run", `{"text":"one"}`))
			turnsOnly(f, e)
			toolsOnly(f, "tools", bustest.Open(t, f.Server), e)
			id := f.Open(api.CreateRequest{})
			f.StartTurn(id, "t1", harness.Text("go"))
			harness.Receive(f.System, "call", e.started)
			f.AwaitUnqueued(id)
			c.cancel(f, id)
			harness.Receive(f.System, "end of the tool's context", ended)
			runtest.Equal(t, "end", f.AwaitTurn(id, "t1").End, c.end)
			f.AwaitState(id, "end of the task", func(s *projector.State) bool { return !s.Tasks[0].Live() })
			runtest.Equal(t, "runs", len(e.runs), 1)
		})
	}
}

// TestFleetToolOtherTurn refuses another turn while t1 waits for a call: the call continues, and t1 with it.
func TestFleetToolOtherTurn(t *testing.T) {
	t.Parallel()
	f := harness.StartFleet(t)
	release := make(chan struct{})
	e := &fleetWorkload{started: make(chan string, 1), block: func(ctx context.Context) error {
		select {
		case <-ctx.Done():
		case <-release:
		}
		return ctx.Err()
	}}
	callFirst(f, harness.Call("a", "run", `{"text":"one"}`))
	turnsOnly(f, e)
	on := bustest.Open(t, f.Server)
	toolsOnly(f, "tools", on, e)
	id := f.Open(api.CreateRequest{})
	f.StartTurn(id, "t1", harness.Text("go"))
	harness.Receive(f.System, "call", e.started)
	f.AwaitUnqueued(id)
	ends := make(chan struct{}, 8)
	stop, err := on.OnCommit(id, func(m bus.LiveMessage) {
		if m.MayEndTurn {
			ends <- struct{}{}
		}
	})
	runtest.WantError(t, "hear", err, nil)
	defer stop()
	runtest.WantError(t, "flush", on.Conn().Flush(), nil)
	_, err = f.Submit(f.Ctx, id, harness.TurnWhenBusy("t2", api.WhenBusyReject))
	runtest.WantError(t, "submit", err, nil)
	harness.Receive(f.System, "end of t2 where the tool runs", ends)
	close(release)
	runtest.Equal(t, "end of t2", f.AwaitTurn(id, "t2").End, events.EndRejected)
	runtest.Equal(t, "end of t1", f.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.Equal(t, "what the model reads", f.Messages(id)[2], "user a=ran one")
	harness.VerifyHistory(t, f.Bus, id)
}
