package external

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
)

var hookCases = []serviceCase{
	{"T08_restricted_tools_and_their_texts_are_not_shown", restrictedTools},
	{"T45_hook_of_a_plugin_with_a_running_call", hookDuringCall},
	{"T46_gate_that_hangs_fails_its_call_only", hangingGate},
	{"T47_hook_that_hangs_is_skipped_and_recorded", hangingHook},
	{"T48_gate_that_blocks_is_the_last_one", blockingGate},
	{"T49_hooks_run_in_the_same_order", hookOrder},
	{"T50_recorded_hooks_are_not_called_again", recordedHooks},
	{"T51_replay_calls_nothing", replayCallsNothing},
	{"T52_events_wait_for_the_observing_plugin", observerDown},
	{"T53_own_point_is_not_received", ownPoint},
}

// A tool without a text is callable, and the prompt does not have its name. The restriction of the session's access
// stands in place of a budget for children.
func restrictedTools(t *testing.T, on place) {
	s := on.start(t, calling("plain", `{}`)...)
	s.nodeOf([]string{"wells"})
	noop := func(r *plugin.Registrar, name string) {
		plugin.AddTool(r, plugin.Tool{Name: name, Effects: events.EffectsNone}, func(context.Context, plugin.Call, struct{}) (string, error) { return "was " + name, nil })
	}
	s.instance(remote.Config{
		Plugin: plugin.Func("wells", func(r *plugin.Registrar) error {
			noop(r, "plain")
			noop(r, "shown")
			noop(r, "denied")
			return nil
		}),
		Prompt: []wire.Fragment{
			{Slot: events.SlotGuidance, Content: "Text of shown.", Tools: []string{"shown"}},
			{Slot: events.SlotGuidance, Content: "Text of denied.", Tools: []string{"denied"}},
		},
	})
	id := s.Open(api.CreateRequest{Access: events.ToolAccess{Hidden: []string{"denied"}}})
	s.RunTurn(id, "t1", harness.Text("go"))
	runtest.Equal(t, "call of the tool without a text", s.CallResult(id, "k"), "was plain")
	var tools []string
	for _, tool := range s.Model.Requests()[0].Tools {
		tools = append(tools, tool.Name)
	}
	prompt := strings.Join(s.Model.Prompt(0), "\n")
	if !slices.Contains(tools, "plain") || !slices.Contains(tools, "shown") || slices.Contains(tools, "denied") {
		t.Errorf("tools: got %v, want plain and shown only", tools)
	}
	if !strings.Contains(prompt, "Text of shown.") || strings.Contains(prompt, "denied") || strings.Contains(prompt, "plain") {
		t.Errorf("prompt: got %q, want the text of shown only", prompt)
	}
}

func hookDuringCall(t *testing.T, on place) {
	s := on.start(t, harness.Reply(harness.Call("k", "long", `{}`)), harness.Reply(harness.Call("k", "own", `{"a":1}`)),
		harness.Reply(harness.Text("done")), harness.Reply(harness.Text("done")))
	var runs atomic.Int64
	s.nodeOf([]string{"busy"}, harness.CountingTools(&runs, "own"))
	began, release := make(chan struct{}), make(chan struct{})
	var hooked sync.Map
	s.instance(remote.Config{Plugin: plugin.Func("busy", func(r *plugin.Registrar) error {
		plugin.AddTool(r, plugin.Tool{Name: "long"}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
			close(began)
			select {
			case <-release:
			case <-ctx.Done():
			}
			return "ended", nil
		})
		r.AfterToolCall(func(_ context.Context, in plugin.ToolResultContext) ([]plugin.Directive, error) {
			hooked.Store(in.Call.Session, in.Tool+" "+in.Result.Text)
			return nil, nil
		})
		return nil
	})})
	busy := s.begin()
	harness.Receive(s.System, "the call", began)
	other := s.turn()
	if got, _ := hooked.Load(other); got != "own was own" {
		t.Errorf("hook of the other session: got %v, want that of its call", got)
	}
	if got, _ := hooked.Load(busy); got != nil {
		t.Errorf("hook of the busy session: got %v, want none before the call ends", got)
	}
	close(release)
	s.AwaitTurn(busy, "t1")
	if got, _ := hooked.Load(busy); got != "long ended" {
		t.Errorf("hook of the busy session: got %v, want that of its call", got)
	}
}

func hangingGate(t *testing.T, on place) {
	s := on.start(t, harness.Reply(harness.Call("k", "own", `{"a":1}`)))
	var runs atomic.Int64
	s.nodeOf([]string{"gate"}, harness.CountingTools(&runs, "own", "brief"))
	hangs, release := s.Open(api.CreateRequest{}), make(chan struct{})
	check := wire.Hook{Name: "check", Point: "before_tool_call", Tools: []string{"own"}, TimeoutMS: wire.MaxHookTimeout.Milliseconds()}
	limited := wire.Hook{Name: "limited", Point: "before_tool_call", Tools: []string{"brief"}, TimeoutMS: 300}
	b := s.bare("gate", wire.Manifest{Hooks: []wire.Hook{check, limited}}, func(in wire.HookCall) any {
		switch {
		case in.Hook == "limited":
			return nil
		case in.Session == hangs:
			<-release
		}
		return wire.HookResult{}
	})
	s.StartTurn(hangs, "t1", harness.Text("go"))
	s.AwaitPolling("the hook", func() bool { return len(b.requests()) == 1 })
	s.Model.Rescript(calling("own", `{"a":1}`)...)
	other := s.turn()
	runtest.Equal(t, "call of the other session", s.CallResult(other, "k"), "was own")
	if r, err := s.StateOf(hangs).Record("t1"); err != nil || r != nil {
		t.Errorf("turn of the hook that hangs: got %v, %v, want that it runs still", r, err)
	}
	s.Model.Rescript(harness.Reply(harness.Text("done")))
	close(release)
	runtest.Equal(t, "end", s.AwaitTurn(hangs, "t1").End, events.EndFinished)
	runtest.Equal(t, "call whose hook answered late", s.CallResult(hangs, "k"), "was own")
	s.Model.Rescript(calling("brief", `{"a":1}`)...)
	id := s.begin()
	runtest.Equal(t, "end", s.AwaitTurn(id, "t1").End, events.EndFinished)
	if got := s.CallResult(id, "k"); !strings.Contains(got, "no answer in time") {
		t.Errorf("call whose hook hangs: got %q, want that the hook did not answer", got)
	}
	runtest.Equal(t, "runs", runs.Load(), 2)
}

// The turn's history records the skipped hook as a trace event of the plugin.
func hangingHook(t *testing.T, on place) {
	s := on.start(t, harness.Reply(harness.Text("done")))
	s.nodeOf([]string{"slow"})
	release, late := make(chan struct{}), make(chan struct{})
	b := s.bare("slow", wire.Manifest{Hooks: []wire.Hook{
		{Name: "hang", Point: "before_turn", TimeoutMS: 300, Open: true}, {Name: "work", Point: "before_turn"},
	}}, func(in wire.HookCall) any {
		if in.Hook == "hang" {
			<-release
			defer close(late)
			return directs(says("too late"))
		}
		return directs(says("in time"))
	})
	id := s.turn()
	ran := s.HookRecord(id, events.PointBeforeTurn)
	runtest.DeepEqual(t, "hooks", b.hooks(), []string{"hang", "work"})
	if len(ran.Decisions) != 2 || ran.Failed != "" {
		t.Fatalf("record: got %+v, want two decisions and no failure of the point", ran)
	}
	var skipped wire.Skipped
	runtest.WantError(t, "payload", json.Unmarshal(ran.Decisions[0].Body, &skipped), nil)
	runtest.Equal(t, "name", ran.Decisions[0].Name, "plugin.slow.hook_skipped")
	runtest.Equal(t, "skipped hook", skipped.Hook, "hang")
	runtest.Equal(t, "reason", skipped.Reason, "no answer in time, limit is 300ms")
	want, seq := []string{"user go", "system in time", "assistant done"}, s.LastSeq(id)
	runtest.EqualLists(t, "messages", s.Messages(id), want)
	close(release)
	harness.Receive(s.System, "the late answer", late)
	runtest.WantError(t, "flush", s.Bus.Conn().Flush(), nil)
	runtest.EqualLists(t, "messages after the late answer", s.Messages(id), want)
	runtest.Equal(t, "sequence after the late answer", s.LastSeq(id), seq)
}

// The gates are hooks of one plugin. Those of other plugins are called too, as all plugins see every call.
func blockingGate(t *testing.T, on place) {
	s := on.start(t, calling("own", `{"a":1}`)...)
	var runs atomic.Int64
	s.nodeOf([]string{"gates"}, harness.CountingTools(&runs, "own"))
	gate := func(name string) wire.Hook { return wire.Hook{Name: name, Point: "before_tool_call"} }
	other := gate("other_tool")
	other.Tools = []string{"another"}
	b := s.bare("gates", wire.Manifest{Hooks: []wire.Hook{other, gate("a"), gate("b"), gate("c")}}, func(in wire.HookCall) any {
		if in.Hook == "b" {
			return directs(wire.Directive{Kind: events.DirectiveAbort, Code: "closed", Message: "the shop is closed"})
		}
		return wire.HookResult{}
	})
	id := s.turn()
	runtest.Equal(t, "call", s.CallResult(id, "k"), "[failed] the shop is closed")
	runtest.DeepEqual(t, "hooks", b.hooks(), []string{"a", "b"})
	runtest.DeepEqual(t, "listed hooks", s.first.Status()[0].Hooks, []string{"a", "b", "c", "other_tool"})
	runtest.Equal(t, "runs", runs.Load(), 0)
	in := b.requests()[0]
	if in.Call == nil || in.Call.Tool != "own" || string(in.Call.Args) != `{"a":1}` || in.Call.Model != "k" || in.Session != id || in.Turn != "t1" {
		t.Errorf("request: got %+v, want that of the call", in)
	}
}

// All hooks of a point get the same input. Their directives are executed in the order of the stack and of the
// manifest, so what the second one says stands behind what the first one says.
func hookOrder(t *testing.T, on place) {
	const turns = 20
	script := make([]harness.Step, turns)
	for i := range script {
		script[i] = harness.Reply(harness.Text("done"))
	}
	s := on.start(t, script...)
	s.nodeOf([]string{"one", "two"})
	said := func(in wire.HookCall) any { return directs(says(in.Hook)) }
	point := "before_turn"
	s.bare("two", wire.Manifest{Hooks: []wire.Hook{{Name: "c", Point: point}, {Name: "a", Point: point}}}, said)
	s.bare("one", wire.Manifest{Hooks: []wire.Hook{{Name: "d", Point: point}, {Name: "b", Point: point}}}, said)
	id := s.Open(api.CreateRequest{})
	for i := range turns {
		turn := events.TurnID(fmt.Sprint("t", i))
		s.RunTurn(id, turn, harness.Text("go"))
		prompt := s.Model.Prompt(i)
		runtest.EqualLists(t, "end of the prompt of "+string(turn), prompt[max(0, len(prompt)-5):], []string{"user go", "system d", "system b", "system c", "system a"})
	}
}

func recordedHooks(t *testing.T, on place) {
	started := make(chan struct{})
	s := on.start(t, harness.Hang(started), harness.Reply(harness.Text("done")))
	_, kill := s.nodeOf([]string{"note"})
	b := s.bare("note", wire.Manifest{Hooks: []wire.Hook{{Name: "n", Point: "before_turn"}}}, func(wire.HookCall) any { return directs(says("noted")) })
	id := s.begin()
	harness.Receive(s.System, "the model call", started)
	s.AwaitPolling("the record of the hook", func() bool { return len(harness.Find[*events.HookRan](s.System, id)) == 1 })
	kill()
	s.nodeOf([]string{"note"})
	s.known(s.first, "note", 1)
	runtest.Equal(t, "end", s.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.Equal(t, "calls of the hook", len(b.requests()), 1)
	runtest.EqualLists(t, "messages", s.Messages(id), []string{"user note it", "system noted", "assistant done"})
}

func replayCallsNothing(t *testing.T, on place) {
	s := on.start(t, calling("look", `{"text":"milk"}`)...)
	s.nodeOf([]string{"notes", "all"})
	s.program("i1")
	manifest := wire.Manifest{Prompt: []wire.Fragment{{Slot: events.SlotIntro, Content: "Be kind."}}}
	points := []string{"before_turn", "before_model_call", "before_tool_call", "after_tool_call", "checkpoint", "after_turn", "turn_finalized", "turn_persisted"}
	for _, point := range points {
		manifest.Hooks = append(manifest.Hooks, wire.Hook{Name: point, Point: point})
	}
	b := s.bare("all", manifest, func(in wire.HookCall) any {
		return directs(wire.Directive{Kind: events.DirectiveEmitTrace, Name: "seen", Payload: json.RawMessage(`1`)})
	})
	id := s.turn()
	s.AwaitPolling("all hooks", func() bool {
		return !slices.ContainsFunc(points, func(point string) bool { return !slices.Contains(b.hooks(), point) })
	})
	s.AwaitState(id, "plugins notified", func(state *projector.State) bool { return len(state.Unnotified) == 0 })
	hooks, runs, live := len(b.requests()), s.began(), s.StateOf(id)
	replayed := projector.New(id)
	for e, err := range s.Bus.Log().Read(s.Ctx, id, 1) {
		runtest.WantError(t, "read", err, nil)
		runtest.WantError(t, "apply", replayed.Apply(e), nil)
	}
	s.Verify(id)
	runtest.Equal(t, "state", bytes.Equal(harness.EncodeState(t, replayed), harness.EncodeState(t, live)), true)
	runtest.Equal(t, "requests for hooks", len(b.requests()), hooks)
	runtest.Equal(t, "runs of the tool", s.began(), runs)
}

// The first event reaches an instance that goes before it answers: it comes again, and says so. The others happen
// while no instance runs.
func observerDown(t *testing.T, on place) {
	const turns = 20
	script := make([]harness.Step, turns)
	for i := range script {
		script[i] = harness.Reply(harness.Text("done"))
	}
	s := on.start(t, script...)
	s.nodeOf([]string{"audit"})
	got := make(chan struct{}, 1)
	watch := func(seen func(ctx context.Context, in plugin.Lifecycle)) remote.Config {
		return remote.Config{
			Hooks: map[events.HookPoint]remote.HookOptions{events.HookPoint(plugin.TurnPersisted): {Timeout: 4 * time.Second}},
			Plugin: plugin.Func("audit", func(r *plugin.Registrar) error {
				r.Lifecycle(func(ctx context.Context, in plugin.Lifecycle) error {
					if in.Kind == plugin.TurnPersisted {
						seen(ctx, in)
					}
					return nil
				})
				return nil
			}),
		}
	}
	_, kill := s.instance(watch(func(ctx context.Context, _ plugin.Lifecycle) {
		select {
		case got <- struct{}{}:
		default: // it was called again
		}
		<-ctx.Done()
	}))
	id := s.Open(api.CreateRequest{})
	s.RunTurn(id, "t0", harness.Text("go"))
	harness.Receive(s.System, "the first event", got)
	kill()
	for i := 1; i < turns; i++ {
		s.RunTurn(id, events.TurnID(fmt.Sprint("t", i)), harness.Text("go"))
	}
	// Registered as before, so that the requests themselves can be seen.
	manifest := wire.Manifest{Version: "1"}
	for _, point := range []string{"session_config_changed", "session_restored", "turn_finalized", "turn_persisted"} {
		h := wire.Hook{Name: point, Point: point}
		if point == "turn_persisted" {
			h.TimeoutMS = 4000
		}
		manifest.Hooks = append(manifest.Hooks, h)
	}
	b := s.bare("audit", manifest, nothing)
	persisted := func() (turns, again []string) {
		for _, in := range b.requests() {
			if in.Point == "turn_persisted" {
				turns = append(turns, string(in.Turn))
				if in.Ending == nil || in.Ending.End != events.EndFinished || in.Session != id {
					t.Errorf("event of %s: got %+v, want the end of the turn", in.Turn, in)
				}
				if in.Redelivered {
					again = append(again, string(in.Turn))
				}
			}
		}
		return turns, again
	}
	s.AwaitPolling("all events", func() bool { list, _ := persisted(); return slices.Contains(list, fmt.Sprint("t", turns-1)) })
	list, again := persisted()
	want := make([]string, turns)
	for i := range want {
		want[i] = fmt.Sprint("t", i)
	}
	// A server redelivers what a starved node handles too slowly. The first delivery of t0 was to the node that was killed.
	runtest.EqualLists(t, "events", slices.Compact(slices.Clone(list)), want)
	if len(again) != 1+len(list)-turns || again[0] != "t0" {
		t.Errorf("redelivered: got %v of %v, want t0, and whatever came twice", again, list)
	}
}

// A plugin fires a point at which it has a hook itself, also within that hook's answer to another plugin.
func ownPoint(t *testing.T, on place) {
	s := on.start(t)
	s.nodeOf([]string{"ping", "pong", "deaf"})
	var mu sync.Mutex
	received := make(map[string][]string)
	var ping, pong *remote.Instance
	custom := func(name string, again func() *remote.Instance) map[string]remote.CustomFunc {
		return map[string]remote.CustomFunc{"news": func(ctx context.Context, in wire.HookCall) error {
			mu.Lock()
			received[name] = append(received[name], string(in.Data)+" "+string(in.Session)+" of "+in.FiredBy)
			mu.Unlock()
			if string(in.Data) != `"first"` {
				return nil
			}
			reached, err := again().Fire(ctx, "news", in.Session, json.RawMessage(`"second"`))
			if err == nil && !slices.Equal(reached, []string{"ping"}) {
				err = fmt.Errorf("reached %v, want the other plugin only", reached)
			}
			return err
		}}
	}
	empty := func(id string) plugin.Factory { return plugin.Func(id, func(*plugin.Registrar) error { return nil }) }
	ping, _ = s.instance(remote.Config{Plugin: empty("ping"), Custom: custom("ping", func() *remote.Instance { return ping })})
	pong, _ = s.instance(remote.Config{Plugin: empty("pong"), Custom: custom("pong", func() *remote.Instance { return pong })})
	s.instance(remote.Config{Plugin: empty("deaf")})
	reached, err := ping.Fire(s.Ctx, "news", "s1", json.RawMessage(`"first"`))
	runtest.WantError(t, "fire", err, nil)
	runtest.DeepEqual(t, "reached", reached, []string{"pong"})
	mu.Lock()
	defer mu.Unlock()
	runtest.DeepEqual(t, "received", received, map[string][]string{"pong": {`"first" s1 of ping`}, "ping": {`"second" s1 of pong`}})
}
