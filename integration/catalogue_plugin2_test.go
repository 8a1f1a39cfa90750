package integration

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
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

func pluginEntries2() []entry {
	return []entry{
		{"P17", "a stream hook that aborts", "a reply streams", "the provider's call is cut; the reply is the streamed text, ended by itself", testStreamAbort},
		{"P18", "a slow lifecycle hook and one that fails", "the end of a turn", "told at once, the failure logged, the turn unaffected", testLifecycleHooks},
		{"P19", "a plugin without an entry in a snapshot", "restore", "restored with nil state at its current revision", testRestoreMissing},
		{"P20", "a snapshot", "compared with the stack", "current until a revision or version moves, or plugins differ", testSnapshotCurrent},
		{"P21", "known ids, versions and revisions", "fingerprint", "the documented digest; order counts", testFingerprint},
		{"P22", "an action that requires a session, one that forbids it", "invoked the other way", "missing session, unexpected session", testActionSession},
		{"P23", "an unknown action, a pending result, a bad output", "called with types", "unknown; errors", testActionCall},
		{"P24", "a session that is live", "its stack is built again", "error, until the first is closed", testLiveTwice},
		{"P25", "a host's factory with a built-in one's id", "a session's stack", "only the host's runs, at its place in the host's order", testFactoryOverride},
		{"P26", "a prompt contributor that fails", "turn", "error of kind plugin_prompt, then the outcome and done", testPromptError},
		{"P32", "a result projector that fails", "a tool's result", "the model reads the error; the record is unchanged", testProjectorError},
	}
}

// testStreamAbort has a provider that goes on until it is cut, then tells what
// it used or not, and one that comes to its end soon.
func testStreamAbort(t *testing.T) {
	for name, c := range map[string]struct{ hang, keep, told bool }{
		"cut": {hang: true}, "cut_and_told": {hang: true, keep: true, told: true}, "ends_soon": {told: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			usage := events.Usage{}
			if c.told {
				usage = events.Usage{Input: 7, Output: 3}
			}
			hanging := func(context.Context, llm.Request) (scripted.Answer, error) {
				return scripted.Answer{Hang: c.hang, Keep: c.keep, Response: llm.Response{
					Stop: events.StopToolUse, Usage: usage, Model: "m",
					Parts: []events.Part{text("one "), text("stop"), text(" two"), call("k", "never", "{}")},
				}}, nil
			}
			b := setupIdle(t, hanging, reply(text("on")))
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
			b.node(declares("cutter", stack))
			id := b.open(api.CreateRequest{})
			r := b.run(id, "t1", text("go"))
			const want = "ONE .STOP."
			equal(t, "end", r.End, events.EndFinished)
			equal(t, "text", r.Text, want)
			equal(t, "model calls", r.ModelCalls, 1)
			replied := find[*events.ModelReplied](b, id)[0]
			equal(t, "stop", replied.Stop, events.StopEnd)
			equal(t, "parts", len(replied.Parts), 1)
			equal(t, "usage", replied.Usage, usage)
			equal(t, "responses", len(seen), 1)
			equal(t, "text of the response", (events.Message{Parts: seen[0].Parts}).Text(), want)
			equal(t, "stop of the response", seen[0].Stop, events.StopEnd)
			equalLists(t, "ends of the stream", ends, []plugin.StreamEnd{plugin.StreamAborted})
			b.run(id, "t2", text("go on"))
			equalLists(t, "next prompt", b.model.prompt(1), []string{"user go", "assistant " + want, "user go on"})
		})
	}
}

// nodeWith starts a node with settings of the test's own, which ends with the test.
func (b *bundle) nodeWith(cfg workers.Config, stack plugin.HostConfig) *workers.Node {
	b.t.Helper()
	var err error
	cfg.Bus, cfg.Providers, cfg.Provider = b.bus, map[string]llm.Provider{"scripted": scripted.New(b.model.answer)}, "scripted"
	cfg.Plugins, err = plugin.NewHost(stack)
	must(b.t, "plugin host", err, nil)
	n, err := workers.NewNode(cfg)
	must(b.t, "node", err, nil)
	must(b.t, "start", n.Start(b.ctx), nil)
	b.t.Cleanup(func() { n.Stop(context.WithoutCancel(b.ctx)) })
	return n
}

// lives is a plugin that does one thing at each event of a session's life.
func lives(id string, do func(ctx context.Context, kind plugin.LifecycleKind) error) plugin.Factory {
	return declares(id, func(r *plugin.Registrar) {
		r.Lifecycle(func(ctx context.Context, e plugin.Lifecycle) error { return do(ctx, e.Kind) })
	})
}

// testLifecycleHooks has a hook that goes on only when the one behind it was told as well.
func testLifecycleHooks(t *testing.T) {
	b := setupIdle(t, reply(text("hi")), reply(text("on")))
	core, logged := observer.New(zapcore.WarnLevel)
	var mu sync.Mutex
	told := make(map[plugin.LifecycleKind]chan struct{})
	of := func(kind plugin.LifecycleKind) chan struct{} {
		mu.Lock()
		defer mu.Unlock()
		if told[kind] == nil {
			told[kind] = make(chan struct{})
		}
		return told[kind]
	}
	finished := make(chan plugin.LifecycleKind, 8)
	slow := lives("slow", func(ctx context.Context, kind plugin.LifecycleKind) error {
		select {
		case <-of(kind):
			finished <- kind
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	failing := lives("failing", func(_ context.Context, kind plugin.LifecycleKind) error { return errRefusal })
	panicking := lives("panicking", func(context.Context, plugin.LifecycleKind) error { panic("ouch") })
	var once sync.Map
	quick := lives("quick", func(_ context.Context, kind plugin.LifecycleKind) error {
		if _, again := once.LoadOrStore(kind, true); !again {
			close(of(kind))
		}
		return nil
	})
	n := b.nodeWith(workers.Config{Logger: zap.New(core)}, plugin.HostConfig{
		Builtins: []plugin.Factory{standard.Factory()}, Factories: []plugin.Factory{slow, failing, panicking, quick},
	})
	id := b.open(api.CreateRequest{})
	r := b.run(id, "t1", text("hello"))
	equal(t, "end", r.End, events.EndFinished)
	equal(t, "text", r.Text, "hi")
	kinds := []plugin.LifecycleKind{plugin.SessionRestored, plugin.TurnFinalized, plugin.TurnPersisted}
	for range kinds {
		select {
		case kind := <-finished:
			equal(t, "told "+string(kind), slices.Contains(kinds, kind), true)
		case <-b.ctx.Done():
			t.Fatal("slow hook: got it waiting for the one behind it, want both told at once")
		}
	}
	equal(t, "next turn", b.run(id, "t2", text("go on")).Text, "on")
	n.Stop(b.ctx) // waits for what is told after a turn
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
	equal(t, "warnings of the others", logged.FilterField(zap.String("plugin", "quick")).Len(), 0)
}

// notes is a plugin that enqueues a note before each turn.
func notes(id, note string) plugin.Factory {
	return declares(id, func(r *plugin.Registrar) {
		r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) {
			return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleSystem, note))}, nil
		})
	})
}

func testFactoryOverride(t *testing.T) {
	b := setupIdle(t, reply(text("hi")))
	b.nodeWith(workers.Config{}, plugin.HostConfig{
		Builtins:  []plugin.Factory{notes("x", "builtin x"), standard.Factory(), notes("y", "builtin y")},
		Factories: []plugin.Factory{notes("a", "host a"), notes("x", "host x"), notes("b", "host b")},
	})
	id := b.open(api.CreateRequest{})
	b.run(id, "t1", text("hello"))
	equalLists(t, "prompt", b.model.prompt(0), []string{"user hello", "system builtin y", "system host a", "system host x", "system host b"})
	var order []string
	for _, d := range find[*events.HookRan](b, id)[0].Decisions {
		order = append(order, d.Plugin)
	}
	equalLists(t, "order", order, []string{"y", "a", "x", "b"})
}

// testPromptError kills the node that asks the contributor first; the next one gets the error.
func testPromptError(t *testing.T) {
	b := setupIdle(t, reply(text("on")))
	asking := make(chan struct{})
	var mu sync.Mutex
	asked, after, contributed := 0, 0, 0
	stack := declares("contributors", func(r *plugin.Registrar) {
		r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) {
			return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleSystem, "before"))}, nil
		})
		r.Prompt(func(ctx context.Context, in plugin.PromptContext) ([]events.Contribution, error) {
			mu.Lock()
			asked++
			n := asked
			mu.Unlock()
			switch n {
			case 1:
				close(asking)
				<-ctx.Done()
				return nil, ctx.Err()
			case 2:
				return []events.Contribution{{Slot: events.SlotIntro, Content: "never shown"}}, errRefusal
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
	_, kill := b.nodeOn(b.bus, stack)
	id := b.open(api.CreateRequest{})
	list := make(chan []api.SessionEvent, 1)
	host := b.otherHost()
	go func() { list <- b.turnEvents(host, id, "t1", nil) }()
	receive(b, "asking", asking)
	kill()
	b.nodeOn(b.bus, stack)
	got := receive(b, "the turn's events", list)
	tags, _ := names(got)
	equalLists(t, "events", tags, []string{"error", "turn_outcome", "done"})
	equal(t, "kind", got[0].Envelope.Kind, "plugin_prompt")
	equal(t, "message", strings.Contains(got[0].Message, errRefusal.Error()), true)
	equal(t, "outcome", *got[1].TurnOutcome, api.TurnOutcome{Type: api.OutcomeStopped, Reason: events.EndRuntimeError})
	r, err := b.Await(b.ctx, id, "t1") // the call itself succeeds: the turn was stopped, its pipeline worked
	must(t, "await", err, nil)
	equal(t, "kind of the record", r.Issue.Kind, "plugin_prompt")
	equal(t, "model calls", len(b.model.asked()), 0)
	equal(t, "later contributors asked", contributed, 0)
	equal(t, "hooks after the turn", after, 1)
	equalLists(t, "messages", b.messages(id), []string{"user hello", "system before"})
	equal(t, "next turn", b.run(id, "t2", text("again")).Text, "on")
}

func testProjectorError(t *testing.T) {
	b := setupIdle(t, reply(call("k", "shout", "{}")), reply(text("done")))
	var mu sync.Mutex
	runs, projections := 0, 0
	begun := make(chan struct{})
	stack := declares("projector", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "shout", Effects: events.EffectsIdempotent}, func(context.Context, plugin.Call, struct{}) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			runs++
			return "all of it", nil
		})
		r.ProjectToolResult(func(ctx context.Context, in plugin.ToolResultContext) (string, []events.Part, error) {
			mu.Lock()
			projections++
			n := projections
			mu.Unlock()
			if n == 1 {
				close(begun)
				<-ctx.Done()
			}
			return "never read", []events.Part{text("nor this")}, errors.New("cannot tell")
		})
	})
	_, kill := b.nodeOn(b.bus, stack)
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	receive(b, "begun", begun)
	kill() // before the result was recorded
	b.nodeOn(b.bus, stack)
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	const told = "plugin projector: tool_result hook: cannot tell"
	equalLists(t, "what the model reads", b.model.prompt(1), []string{"user go", "assistant k:shout{}", "user k=" + told})
	result := b.model.asked()[1].Messages[2].Parts
	equal(t, "parts", len(result), 1)
	equal(t, "outcome that the model is told", result[0].Outcome, events.OutcomeSuccess)
	recorded := find[*events.ToolReturned](b, id)[0].Results[0]
	equal(t, "recorded outcome", recorded.Outcome, events.OutcomeSuccess)
	output, err := b.ToolOutput(b.ctx, id, "t1/0/0")
	must(t, "output", err, nil)
	equal(t, "output", output, "all of it")
	turn, err := b.AssembledTurn(b.ctx, id, "t1")
	must(t, "assemble", err, nil)
	equal(t, "record", turn.ToolCalls[0].Output, "all of it")
	equal(t, "outcome of the record", turn.ToolCalls[0].Outcome, events.OutcomeSuccess)
	equal(t, "errors", len(turn.Errors), 0)
}
