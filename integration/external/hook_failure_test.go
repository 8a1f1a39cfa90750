package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// hookedOnce answers each turn's first model call with a call of the tool own, and its second one with a text.
func hookedOnce(n int) []harness.Step {
	return slices.Repeat([]harness.Step{func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		if last := req.Messages[len(req.Messages)-1]; last.Parts[0].Kind == events.PartToolResult {
			return harness.Reply(harness.Text("done"))(ctx, req)
		}
		return harness.Reply(harness.Call("k", "own", `{"a":1}`))(ctx, req)
	}}, n)
}

var decidingPoints = []events.HookPoint{
	events.PointBeforeTurn, events.PointBeforeModel, events.PointBeforeTool, events.PointAfterTool, events.PointCheckpoint, events.PointAfterTurn,
}

// hookFailures are how hooks fail: their answers, nil for none, and words of the reason.
var hookFailures = map[string]struct {
	answer any
	reason string
}{
	"error": {wire.HookResult{Error: &wire.Error{Code: wire.CodeInternal, Message: "as requested"}}, "it failed: as requested"},
	"wrong": {[]byte(`{"directives":[{"kind":"reboot"}]}`), `directive "reboot" is not allowed`},
	"hang":  {nil, "no answer in time"},
}

// failingHooks are the hooks of [setting.failing]: of each point one that fails closed and one that fails open. hangs names
// the one with a short time limit.
func failingHooks(hangs string) (list []wire.Hook) {
	for _, point := range decidingPoints {
		for _, open := range []bool{false, true} {
			h := wire.Hook{Name: "closed_" + string(point), Point: string(point), TimeoutMS: wire.MaxHookTimeout.Milliseconds(), Open: open}
			if open {
				h.Name = "open_" + string(point)
			}
			if h.Name == hangs {
				h.TimeoutMS = 300
			}
			if !open || point != events.PointBeforeTool {
				list = append(list, h)
			}
		}
	}
	return list
}

// failing starts a plugin with [failingHooks]. The returned function runs a turn in which a hook fails, and checks what follows.
func failing(t *testing.T, hangs string) (fail func(t *testing.T, h wire.Hook, how string)) {
	t.Helper()
	s := start(t, hookedOnce(100)...)
	var runs atomic.Int64
	s.nodeOf([]string{"p"}, harness.CountingTools(&runs, "own"))
	type failed struct{ hook, how string }
	var bySession sync.Map
	s.bare("p", wire.Manifest{Hooks: failingHooks(hangs)}, func(in wire.HookCall) any {
		if f, _ := bySession.Load(in.Session); f.(failed).hook == in.Hook {
			return hookFailures[f.(failed).how].answer
		}
		return wire.HookResult{}
	})
	return func(t *testing.T, h wire.Hook, how string) {
		t.Helper()
		id := s.Open(api.CreateRequest{})
		bySession.Store(id, failed{h.Name, how})
		s.StartTurn(id, "t1", harness.Text("go"))
		s.AwaitTurn(id, "t1")
		s.wantFailure(t, id, h, hookFailures[how].reason)
	}
}

// wantFailure compares the turn of a failed hook with what the hook's point and its manifest say.
func (s *setting) wantFailure(t *testing.T, id events.SessionID, h wire.Hook, reason string) {
	t.Helper()
	record, skipped := s.AwaitTurn(id, "t1"), skippedHooks(s, id)
	if h.Open {
		runtest.Equal(t, "end", record.End, events.EndFinished)
		runtest.Equal(t, "result", s.CallResult(id, "k"), "was own")
		if len(skipped) == 0 || skipped[0].Hook != h.Name || !strings.Contains(skipped[0].Reason, reason) {
			t.Errorf("skipped: got %+v, want %s, %q", skipped, h.Name, reason)
		}
		return
	}
	end := map[events.HookPoint]events.TurnEnd{
		events.PointBeforeTurn: events.EndFailed, events.PointBeforeModel: events.EndRuntimeError, events.PointBeforeTool: events.EndFinished, events.PointAfterTool: events.EndFinished,
		events.PointCheckpoint: events.EndRuntimeError, events.PointAfterTurn: events.EndFailed,
	}[events.HookPoint(h.Point)]
	runtest.Equal(t, "end", record.End, end)
	said := record.Issue.Message
	if end == events.EndFinished {
		said = s.CallResult(id, "k")
	}
	if !strings.Contains(said, reason) || !strings.Contains(said, h.Name) {
		t.Errorf("failure: got %q, want %s and %q", said, h.Name, reason)
	}
	runtest.DeepEqual(t, "skipped", skipped, []wire.Skipped(nil))
}

// TestHookFailures has the hook of each point fail in each way. The failure does what it does for a hook in the node. A
// hook that fails open is skipped, and the history says so. A hook that hangs has a plugin of its own, since no other hook
// of that has its short time limit.
func TestHookFailures(t *testing.T) {
	t.Parallel()
	fail := failing(t, "")
	for _, h := range failingHooks("") {
		for _, how := range []string{"error", "wrong"} {
			t.Run(h.Name+"_"+how, func(t *testing.T) { fail(t, h, how) })
		}
		t.Run(h.Name+"_hang", func(t *testing.T) {
			t.Parallel()
			failing(t, h.Name)(t, h, "hang")
		})
	}
}

// skippedHooks are the hooks that the history says were skipped.
func skippedHooks(s *setting, id events.SessionID) (list []wire.Skipped) {
	for _, ran := range harness.Find[*events.HookRan](s.System, id) {
		for _, d := range ran.Decisions {
			var skipped wire.Skipped
			if strings.HasSuffix(d.Name, "."+wire.SkippedHook) && json.Unmarshal(d.Body, &skipped) == nil {
				list = append(list, skipped)
			}
		}
	}
	return list
}

// TestHooksWithoutInstance: no call runs that no gate has checked. A hook that fails open is skipped.
func TestHooksWithoutInstance(t *testing.T) {
	t.Parallel()
	s := start(t, hookedOnce(2)...)
	var runs atomic.Int64
	s.nodeOf([]string{"p"}, harness.CountingTools(&runs, "own"))
	r := registration("1")
	r.Manifest.Hooks = []wire.Hook{{Name: "gate", Point: "before_tool_call"}, {Name: "advice", Point: "before_turn", Open: true}}
	if answer := s.client().request("p", "register", r); answer.Error != nil {
		t.Fatalf("got %+v, want it accepted", answer)
	}
	id := s.turn()
	runtest.Contains(t, "call", s.CallResult(id, "k"), "no instance of plugin p runs")
	runtest.Equal(t, "runs", runs.Load(), 0)
	if skipped := skippedHooks(s, id); len(skipped) != 1 || skipped[0].Hook != "advice" {
		t.Errorf("skipped: got %v, want advice", skipped)
	}
}

// TestHookGoesToTheNextInstance ends one of two instances: until its lease is over nodes choose it still, and ask the
// other one at once.
func TestHookGoesToTheNextInstance(t *testing.T) {
	t.Parallel()
	const sessions = 8
	s := start(t, slices.Repeat([]harness.Step{harness.Reply(harness.Text("done"))}, sessions)...)
	s.nodeOf([]string{"p"})
	cfg := func(name string) remote.Config {
		return remote.Config{Instance: name, Plugin: plugin.Func("p", func(r *plugin.Registrar) error {
			r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) {
				return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleSystem, "by "+name))}, nil
			})
			return nil
		}), Hooks: map[events.HookPoint]remote.HookOptions{"before_turn": {Timeout: wire.MaxHookTimeout}}}
	}
	_, kill := s.instance(cfg("i1"))
	s.instanceOf(cfg("i2"), 2)
	on, first := s.on.open(t), s.idOf("i1")
	kill()
	s.AwaitPolling("the server to drop the subscriptions of i1", func() bool {
		once, cancel := context.WithTimeout(s.Ctx, time.Second) // one that arrives while it ends has no answer
		defer cancel()
		_, err := on.RequestInstance(once, "p", first, "hook", []byte("{}"))
		return errors.Is(err, bus.ErrNoResponder)
	})
	began := time.Now()
	for range sessions {
		id := s.turn()
		runtest.EqualLists(t, "messages", s.Messages(id), []string{"user go", "system by i2", "assistant done"})
	}
	if took := time.Since(began); took > wire.MaxHookTimeout {
		t.Errorf("turns: took %s, want that none waits for its time limit, %s", took, wire.MaxHookTimeout)
	}
}

// TestHooksOfTheSDK runs a turn whose hooks direct at every point, and compares what they get and what follows with the
// same plugin in the node.
func TestHooksOfTheSDK(t *testing.T) {
	t.Parallel()
	for _, inNode := range []bool{true, false} {
		var mu sync.Mutex
		var seen []string
		note := func(text string) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, text)
		}
		f := plugin.Func("p", func(r *plugin.Registrar) error {
			r.BeforeTurn(func(_ context.Context, in plugin.TurnContext) ([]plugin.Directive, error) {
				note("before_turn " + string(in.Turn) + " " + string(in.Effect) + " " + in.Input.Parts[0].Text)
				return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleUser, "more")), plugin.Trace("begun", json.RawMessage(`{"x":1}`))}, nil
			})
			r.BeforeModelCall(func(_ context.Context, in plugin.ModelContext) ([]plugin.Directive, error) {
				note(fmt.Sprint("before_model_call ", in.Iteration, " ", in.Effect, " ", in.LastPrompt, " of ", in.Window))
				return []plugin.Directive{
					plugin.Contribute(events.Contribution{Slot: events.SlotGuidance, Content: fmt.Sprint("Call ", in.Iteration)}),
					plugin.SystemPrompt("Be brief."),
				}, nil
			})
			r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
				note("before_tool_call " + in.Tool + " " + string(in.Args) + " " + string(in.Call.Effect) + " " + string(in.Call.ID))
				return []plugin.Directive{plugin.ReplaceArgs(json.RawMessage(`{"a":2}`))}, nil
			})
			r.AfterToolCall(func(_ context.Context, in plugin.ToolResultContext) ([]plugin.Directive, error) {
				note("after_tool_call " + in.Tool + " " + string(in.Args) + " " + in.Result.Text)
				return []plugin.Directive{plugin.ShortCircuit(plugin.Result{Text: "instead"}), plugin.Emit(json.RawMessage(`"seen"`))}, nil
			})
			r.Checkpoint(func(_ context.Context, in plugin.CheckpointContext) ([]plugin.Directive, error) {
				note("checkpoint " + string(in.At) + " " + string(in.Effect))
				return nil, nil
			})
			r.AfterTurn(func(_ context.Context, in plugin.TurnResultContext) ([]plugin.Directive, error) {
				note("after_turn " + string(in.Ending.End))
				return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleSystem, "bye"))}, nil
			})
			return nil
		})
		s := start(t, hookedOnce(2)...)
		s.changesOthers = true
		var runs atomic.Int64
		if own := harness.CountingTools(&runs, "own"); inNode {
			s.nodeOf(nil, own, f)
		} else {
			s.nodeOf([]string{"p"}, own)
			s.instance(remote.Config{Plugin: f})
		}
		id := s.turn()
		runtest.EqualLists(t, "inputs", seen, []string{
			"before_turn t1 t1/0/before_turn go", "before_model_call 0 t1/0/before_model_call 0 of 0", `before_tool_call own {"a":1} t1/0/0 k`, `after_tool_call own {"a":2} was own`,
			"checkpoint after_work t1/1/checkpoint/after_work", "before_model_call 1 t1/1/before_model_call 10 of 0", "checkpoint before_completion t1/2/checkpoint/before_completion", "after_turn finished",
		})
		runtest.EqualLists(t, "messages", s.Messages(id), []string{"user go", "user more", `assistant k:own{"a":1}`, "user k=instead", "assistant done", "system bye"})
		for n := range 2 {
			runtest.Equal(t, "system text", s.Model.Prompt(n)[0], fmt.Sprint("system Be brief.\n\nCall ", n))
		}
		var decisions []string
		for _, ran := range harness.Find[*events.HookRan](s.System, id) {
			for _, d := range ran.Decisions {
				decisions = append(decisions, d.Plugin+" "+string(d.Kind)+" "+d.Name+" "+string(d.Body))
			}
		}
		runtest.EqualLists(t, "decisions", decisions, []string{
			"p enqueue_messages  ", `p emit_trace plugin.p.begun {"x":1}`, "p contribute  ", "p system_prompt  ", `p replace_tool_args  {"a":2}`, "p short_circuit_tool  ",
			`p emit_events  ["seen"]`, "p contribute  ", "p system_prompt  ", "p enqueue_messages  ",
		})
	}
}

// TestFrameSwitchOfTheSDK has a hook continue in another frame before the second model call.
func TestFrameSwitchOfTheSDK(t *testing.T) {
	t.Parallel()
	for _, inNode := range []bool{true, false} {
		known := plugin.Say(events.RoleUser, "known")
		known.ID = "n1"
		f := plugin.Func("p", func(r *plugin.Registrar) error {
			r.BeforeModelCall(func(_ context.Context, in plugin.ModelContext) ([]plugin.Directive, error) {
				if in.Iteration == 0 {
					return nil, nil
				}
				return []plugin.Directive{plugin.SwitchFrame(events.FrameSwitch{
					Frame: events.FrameID(in.Effect), Task: "the rest", Nodes: []events.NewNode{{ID: "n1", Kind: events.NodeMessage, Message: known}},
				})}, nil
			})
			return nil
		})
		s := start(t, hookedOnce(1)[0], harness.Reply(harness.Text("done")))
		s.changesOthers = true
		var runs atomic.Int64
		if own := harness.CountingTools(&runs, "own"); inNode {
			s.nodeOf(nil, own, f)
		} else {
			s.nodeOf([]string{"p"}, own)
			s.instance(remote.Config{Plugin: f})
		}
		id := s.begin()
		runtest.Equal(t, "end", s.AwaitTurn(id, "t1").End, events.EndSwitched)
		runtest.Equal(t, "end", s.AwaitTurn(id, "t1-frame-1").End, events.EndFinished)
		runtest.EqualLists(t, "prompt", s.Model.Prompt(1), []string{"user known", "user the rest"})
		runtest.Equal(t, "frame", s.StateOf(id).Frame().ID, "t1/1/before_model_call")
		runtest.Equal(t, "origin", harness.Find[*events.FrameOpened](s.System, id)[0].Nodes[0].Message.Origin, "p")
		harness.VerifyHistory(t, s.Bus, id)
	}
}

// TestSDKRefusesDirectives: what no message carries is a failure of the hook that names it, and a panic is one too.
func TestSDKRefusesDirectives(t *testing.T) {
	t.Parallel()
	for want, hook := range map[string]func() []plugin.Directive{
		"create_session: a plugin of its own process cannot direct it": func() []plugin.Directive { return []plugin.Directive{harness.CreateChild("kid")} },
		"message 1 is not one text": func() []plugin.Directive {
			return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleUser, "a"), events.Message{Role: events.RoleUser})}
		},
		"hook panicked: as requested": func() []plugin.Directive { panic("as requested") },
		"limit is 131072": func() []plugin.Directive {
			return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleUser, strings.Repeat("x", wire.MaxHookAnswer)))}
		},
	} {
		s := start(t)
		s.nodeOf([]string{"p"})
		s.instance(remote.Config{Plugin: plugin.Func("p", func(r *plugin.Registrar) error {
			r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) { return hook(), nil })
			return nil
		})})
		id := s.begin()
		if r := s.AwaitTurn(id, "t1"); r.End != events.EndFailed || !strings.Contains(r.Issue.Message, want) {
			t.Errorf("turn: got %s, %q, want %q", r.End, r.Issue.Message, want)
		}
	}
}

// TestFireRefused: each request is refused with its reason, and no hook is called.
func TestFireRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.nodeOf([]string{"sender", "receiver", "unregistered"})
	release := make(chan struct{})
	b := s.bare("receiver", wire.Manifest{Hooks: []wire.Hook{{Name: "h", Point: "custom.news", TimeoutMS: 15000}, {Name: "bad", Point: "custom.bad"}}}, func(in wire.HookCall) any {
		if in.Hook == "bad" {
			return wire.HookResult{Error: &wire.Error{Message: "not today"}}
		}
		<-release
		return wire.HookResult{}
	})
	s.bare("sender", wire.Manifest{}, nothing)
	c := s.client()
	fire := func(plugin, body string) (answer wire.Fired) {
		m, err := c.nc.Request(c.prefix+".plugins."+plugin+".fire", []byte(body), time.Minute)
		runtest.WantError(t, "request", err, nil)
		runtest.WantError(t, "answer", json.Unmarshal(m.Data, &answer), nil)
		return answer
	}
	refused := func(plugin, body, code, field string) {
		t.Helper()
		if got := fire(plugin, body); got.Error == nil || got.Error.Code != code || got.Error.Field != field || len(got.Reached) > 0 {
			t.Errorf("%s of %s: got %+v, want %s of %q", body, plugin, got, code, field)
		}
	}
	refused("sender", `{`, wire.CodeBadRequest, "body")
	refused("sender", `{"point":1}`, wire.CodeBadRequest, "point")
	refused("sender", `{"point":"before_turn"}`, wire.CodeBadRequest, "point")
	refused("sender", `{"point":"custom.news","session":"a.b"}`, wire.CodeBadRequest, "session")
	refused("unregistered", `{"point":"custom.news"}`, wire.CodeBadRequest, "op")
	_, err := c.nc.Request(c.prefix+".plugins.unknown.fire", []byte(`{"point":"custom.news"}`), time.Minute)
	runtest.WantError(t, "a plugin that no node has", err, nats.ErrNoResponders)
	runtest.Equal(t, "requests for hooks", len(b.requests()), 0)
	if got := fire("sender", `{"point":"custom.bad"}`); got.Error == nil || !strings.Contains(got.Error.Message, "not today") {
		t.Errorf("hook that fails: got %+v, want its error", got)
	}
	if got := fire("sender", `{"point":"custom.nobody"}`); got.Error != nil || got.Reached == nil || len(got.Reached) > 0 {
		t.Errorf("point without hooks: got %+v, want an empty list", got)
	}
	var all sync.WaitGroup
	for range wire.MaxFires {
		all.Go(func() {
			if got := fire("sender", `{"point":"custom.news"}`); got.Error != nil || !slices.Equal(got.Reached, []string{"receiver"}) {
				t.Errorf("got %+v, want that it reached the receiver", got)
			}
		})
	}
	s.AwaitPolling("requests for hooks", func() bool { return len(b.requests()) == wire.MaxFires+1 })
	refused("sender", `{"point":"custom.news"}`, wire.CodeBusy, "")
	if answer := c.request("unregistered", "register", registration("1")); answer.Error != nil {
		t.Errorf("registration meanwhile: got %+v, want it accepted", answer)
	}
	close(release)
	all.Wait()
}

// TestObserverOutlivesNodes stops the node that holds an event while no instance runs: the next node delivers it.
func TestObserverOutlivesNodes(t *testing.T) {
	t.Parallel()
	s := start(t, harness.Reply(harness.Text("done")))
	p, kill := s.nodeOf([]string{"audit"})
	m := wire.Manifest{Hooks: []wire.Hook{{Name: "end", Point: "turn_persisted"}}}
	r := registration("1")
	r.Manifest.Hooks = m.Hooks
	if answer := s.client().request("audit", "register", r); answer.Error != nil {
		t.Fatalf("got %+v, want it accepted", answer)
	}
	id := s.turn()
	s.AwaitPolling("the stored event", func() bool { return s.pending(t) == 1 })
	kill()
	p.Stop()
	s.nodeOf([]string{"audit"})
	b := s.bare("audit", m, nothing)
	s.AwaitPolling("the event", func() bool { return len(b.requests()) == 1 })
	if in := b.requests()[0]; in.Session != id || in.Turn != "t1" {
		t.Errorf("event: got %+v, want the end of the turn", in)
	}
	s.AwaitPolling("an empty stream", func() bool { return s.pending(t) == 0 })
}
