package catalogue

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

func pluginLifecycleEntries() []entry {
	return []entry{
		{"P17", "stream hook cuts the reply", "a stream hook that aborts", "a reply streams", "the provider's call is cut; the reply is the streamed text, ended by itself", testStreamAbort},
		{"P18", "lifecycle hooks do not delay the turn", "a slow lifecycle hook and one that fails", "the end of a turn", "told at once, the failure logged, the turn unaffected", testLifecycleHooks},
		{"P19", "plugin without a snapshot entry is restored empty", "a plugin without an entry in a snapshot", "restore", "restored with nil state at its current revision", testRestoreMissing},
		{"P20", "snapshot is current until the stack changes", "a snapshot", "compared with the stack", "current until a revision or version moves, or plugins differ", testSnapshotCurrent},
		{"P21", "fingerprint has the documented digest", "known ids, versions and revisions", "fingerprint", "the documented digest; order counts", testFingerprint},
		{"P22", "action checks whether it has a session", "an action that requires a session, one that forbids it", "invoked the other way", "missing session, unexpected session", testActionSession},
		{"P23", "typed action reports its errors", "an unknown action, a pending result, a bad output", "called with types", "unknown; errors", testActionCall},
		{"P24", "live session has one stack", "a session that is live", "its stack is built again", "error, until the first is closed", testLiveTwice},
		{"P25", "host factory replaces a built-in one", "a host's factory with a built-in one's id", "a session's stack", "only the host's runs, at its place in the host's order", testFactoryOverride},
		{"P26", "failed prompt contributor fails the turn", "a prompt contributor that fails", "turn", "error of kind plugin_prompt, then the outcome and done", testPromptError},
		{"P32", "failed result projector changes no record", "a result projector that fails", "a tool's result", "the model reads the error; the record is unchanged", testProjectorError},
	}
}

// testStreamAbort has a provider that streams until it is cancelled and then reports its usage or not, and one
// that ends soon.
func testStreamAbort(t *testing.T) {
	for name, c := range map[string]struct{ hang, keep, replied bool }{
		"cut": {hang: true}, "cut_and_told": {hang: true, keep: true, replied: true}, "ends_soon": {replied: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			usage := events.Usage{}
			if c.replied {
				usage = events.Usage{Input: 7, Output: 3}
			}
			hanging := func(context.Context, llm.Request) (scripted.Answer, error) {
				return scripted.Answer{Hang: c.hang, Keep: c.keep, Response: llm.Response{
					Stop: events.StopToolUse, Usage: usage, Model: "m",
					Parts: []events.Part{harness.Text("one "), harness.Text("stop"), harness.Text(" two"), harness.Call("k", "never", "{}")},
				}}, nil
			}
			b := harness.StartIdle(t, hanging, harness.Reply(harness.Text("on")))
			var seen []plugin.Response
			var ends []plugin.StreamEnd
			stack := func(r *plugin.Registrar) {
				r.Stream(func(_ context.Context, _ events.SessionID, chunk string) (plugin.StreamTransform, error) {
					return plugin.StreamTransform{Chunk: strings.ToUpper(chunk), Abort: chunk == "stop"}, nil
				})
				r.Stream(func(_ context.Context, _ events.SessionID, chunk string) (plugin.StreamTransform, error) {
					return plugin.StreamTransform{Chunk: chunk + "."}, nil // one abort of two is enough
				})
				r.Response(func(_ context.Context, _ events.SessionID, got plugin.Response) (plugin.Response, []json.RawMessage, error) {
					seen = append(seen, got)
					return got, nil, nil
				})
				r.StreamEnd(func(_ context.Context, _ events.SessionID, end plugin.StreamEnd) { ends = append(ends, end) })
			}
			b.StartNode(harness.PluginOf("cutter", stack))
			id := b.Open(api.CreateRequest{})
			r := b.RunTurn(id, "t1", harness.Text("go"))
			const want = "ONE .STOP."
			runtest.Equal(t, "end", r.End, events.EndFinished)
			runtest.Equal(t, "text", r.Text, want)
			runtest.Equal(t, "model calls", r.ModelCalls, 1)
			replied := harness.Find[*events.ModelReplied](b, id)[0]
			runtest.Equal(t, "stop", replied.Stop, events.StopEnd)
			runtest.Equal(t, "parts", len(replied.Parts), 1)
			runtest.Equal(t, "usage", replied.Usage, usage)
			runtest.Equal(t, "responses", len(seen), 1)
			runtest.Equal(t, "text of the response", (events.Message{Parts: seen[0].Parts}).Text(), want)
			runtest.Equal(t, "stop of the response", seen[0].Stop, events.StopEnd)
			runtest.EqualLists(t, "ends of the stream", ends, []plugin.StreamEnd{plugin.StreamAborted})
			b.RunTurn(id, "t2", harness.Text("go on"))
			runtest.EqualLists(t, "next prompt", b.Model.Prompt(1), []string{"user go", "assistant " + want, "user go on"})
		})
	}
}

// testLifecycleHooks has a hook that returns only when the hook behind it was called as well.
func testLifecycleHooks(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Text("hi")), harness.Reply(harness.Text("on")))
	core, logged := observer.New(zapcore.WarnLevel)
	var mu sync.Mutex
	outcomes := make(map[plugin.LifecycleKind]chan struct{})
	of := func(kind plugin.LifecycleKind) chan struct{} {
		mu.Lock()
		defer mu.Unlock()
		if outcomes[kind] == nil {
			outcomes[kind] = make(chan struct{})
		}
		return outcomes[kind]
	}
	finished := make(chan plugin.LifecycleKind, 8)
	slow := harness.LifecyclePlugin("slow", func(ctx context.Context, kind plugin.LifecycleKind) error {
		select {
		case <-of(kind):
			finished <- kind
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	failing := harness.LifecyclePlugin("failing", func(_ context.Context, kind plugin.LifecycleKind) error { return harness.ErrPlugin })
	panicking := harness.LifecyclePlugin("panicking", func(context.Context, plugin.LifecycleKind) error { panic("ouch") })
	var once sync.Map
	quick := harness.LifecyclePlugin("quick", func(_ context.Context, kind plugin.LifecycleKind) error {
		if _, again := once.LoadOrStore(kind, true); !again {
			close(of(kind))
		}
		return nil
	})
	n := b.StartNodeWith(workers.Config{Logger: zap.New(core)}, plugin.BuilderConfig{
		Builtins: []plugin.Factory{standard.Factory()}, Factories: []plugin.Factory{slow, failing, panicking, quick},
	})
	id := b.Open(api.CreateRequest{})
	r := b.RunTurn(id, "t1", harness.Text("hello"))
	runtest.Equal(t, "end", r.End, events.EndFinished)
	runtest.Equal(t, "text", r.Text, "hi")
	kinds := []plugin.LifecycleKind{plugin.SessionRestored, plugin.TurnFinalized, plugin.TurnPersisted}
	for range kinds {
		select {
		case kind := <-finished:
			runtest.Equal(t, "told "+string(kind), slices.Contains(kinds, kind), true)
		case <-b.Ctx.Done():
			t.Fatal("slow hook: got it waiting for the one behind it, want both told at once")
		}
	}
	runtest.Equal(t, "next turn", b.RunTurn(id, "t2", harness.Text("go on")).Text, "on")
	n.Stop(b.Ctx) // waits for the hooks after a turn
	for _, kind := range kinds {
		for _, who := range []string{"failing", "panicking"} {
			entries := logged.Filter(func(e observer.LoggedEntry) bool {
				m := e.ContextMap()
				return m["plugin"] == who && m["point"] == string(kind)
			})
			if entries.Len() == 0 {
				t.Errorf("log of %s at %s: got nothing, want a warning", who, kind)
			}
		}
	}
	runtest.Equal(t, "warnings of the others", logged.FilterField(zap.String("plugin", "quick")).Len(), 0)
}

// notePlugin is a plugin that enqueues a note before each turn.
func notePlugin(id, note string) plugin.Factory {
	return harness.PluginOf(id, func(r *plugin.Registrar) {
		r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) {
			return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleSystem, note))}, nil
		})
	})
}

func testFactoryOverride(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Text("hi")))
	b.StartNodeWith(workers.Config{}, plugin.BuilderConfig{
		Builtins:  []plugin.Factory{notePlugin("x", "builtin x"), standard.Factory(), notePlugin("y", "builtin y")},
		Factories: []plugin.Factory{notePlugin("a", "host a"), notePlugin("x", "host x"), notePlugin("b", "host b")},
	})
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("hello"))
	runtest.EqualLists(t, "prompt", b.Model.Prompt(0), []string{"user hello", "system builtin y", "system host a", "system host x", "system host b"})
	var order []string
	for _, d := range harness.Find[*events.HookRan](b, id)[0].Decisions {
		order = append(order, d.Plugin)
	}
	runtest.EqualLists(t, "order", order, []string{"y", "a", "x", "b"})
}

// testPromptError kills the node that calls the contributor first; the next node receives the error.
func testPromptError(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Text("on")))
	requested := make(chan struct{})
	var mu sync.Mutex
	requests, after, contributed := 0, 0, 0
	stack := harness.PluginOf("contributors", func(r *plugin.Registrar) {
		r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) {
			return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleSystem, "before"))}, nil
		})
		r.Prompt(func(ctx context.Context, in plugin.PromptContext) ([]events.Contribution, error) {
			mu.Lock()
			requests++
			n := requests
			mu.Unlock()
			switch n {
			case 1:
				close(requested)
				<-ctx.Done()
				return nil, ctx.Err()
			case 2:
				return []events.Contribution{{Slot: events.SlotIntro, Content: "never shown"}}, harness.ErrPlugin
			}
			return nil, nil
		})
		r.Prompt(func(context.Context, plugin.PromptContext) ([]events.Contribution, error) {
			mu.Lock()
			defer mu.Unlock()
			contributed++
			return nil, nil
		})
		r.AfterTurn(func(context.Context, plugin.TurnResultContext) ([]plugin.Directive, error) {
			mu.Lock()
			defer mu.Unlock()
			after++
			return nil, nil
		})
	})
	_, kill := b.StartNodeOn(b.Bus, stack)
	id := b.Open(api.CreateRequest{})
	list := make(chan []api.SessionEvent, 1)
	host := b.OtherHost()
	go func() { list <- b.TurnEvents(host, id, "t1", nil) }()
	harness.Receive(b, "asking", requested)
	kill()
	b.StartNodeOn(b.Bus, stack)
	got := harness.Receive(b, "the turn's events", list)
	tags, _ := harness.EventNames(got)
	runtest.EqualLists(t, "events", tags, []string{"error", "turn_outcome", "done"})
	runtest.Equal(t, "kind", got[0].Envelope.Kind, "plugin_prompt")
	runtest.Equal(t, "message", strings.Contains(got[0].Message, harness.ErrPlugin.Error()), true)
	runtest.Equal(t, "outcome", *got[1].TurnOutcome, api.TurnOutcome{Type: api.OutcomeStopped, Reason: events.EndRuntimeError})
	r, err := b.Await(b.Ctx, id, "t1") // the call itself succeeds: the turn was stopped, its pipeline worked
	runtest.WantError(t, "await", err, nil)
	runtest.Equal(t, "kind of the record", r.Issue.Kind, "plugin_prompt")
	runtest.Equal(t, "model calls", len(b.Model.Requests()), 0)
	runtest.Equal(t, "later contributors asked", contributed, 0)
	runtest.Equal(t, "hooks after the turn", after, 1)
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user hello", "system before"})
	runtest.Equal(t, "next turn", b.RunTurn(id, "t2", harness.Text("again")).Text, "on")
}

func testProjectorError(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "shout", "{}")), harness.Reply(harness.Text("done")))
	var mu sync.Mutex
	runs, projections := 0, 0
	started := make(chan struct{})
	stack := harness.PluginOf("projector", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "shout", Effects: events.EffectsIdempotent}, func(context.Context, plugin.Call, struct{}) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			runs++
			return "all of it", nil
		})
		r.ProjectToolResult(func(ctx context.Context, in plugin.ToolResultContext) (plugin.View, error) {
			mu.Lock()
			projections++
			n := projections
			mu.Unlock()
			if n == 1 {
				close(started)
				<-ctx.Done()
			}
			return plugin.View{Text: "never read", Attachments: []events.Part{harness.Text("nor this")}}, errors.New("cannot tell")
		})
	})
	_, kill := b.StartNodeOn(b.Bus, stack)
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	harness.Receive(b, "the start", started)
	kill() // before the result was recorded
	b.StartNodeOn(b.Bus, stack)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	const told = "plugin projector: tool_result hook: cannot tell"
	runtest.EqualLists(t, "what the model reads", b.Model.Prompt(1), []string{"user go", "assistant k:shout{}", "user k=" + told})
	result := b.Model.Requests()[1].Messages[2].Parts
	runtest.Equal(t, "parts", len(result), 1)
	runtest.Equal(t, "outcome that the model is told", result[0].Outcome, events.OutcomeSuccess)
	recorded := harness.Find[*events.ToolReturned](b, id)[0].Results[0]
	runtest.Equal(t, "recorded outcome", recorded.Outcome, events.OutcomeSuccess)
	output, err := b.ToolOutput(b.Ctx, id, "t1/0/0")
	runtest.WantError(t, "output", err, nil)
	runtest.Equal(t, "output", output, "all of it")
	turn, err := b.AssembledTurn(b.Ctx, id, "t1")
	runtest.WantError(t, "assemble", err, nil)
	runtest.Equal(t, "record", turn.ToolCalls[0].Output, "all of it")
	runtest.Equal(t, "outcome of the record", turn.ToolCalls[0].Outcome, events.OutcomeSuccess)
	runtest.Equal(t, "errors", len(turn.Errors), 0)
}
