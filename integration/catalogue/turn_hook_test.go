package catalogue

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/standard"
)

func turnHookEntries() []entry {
	return []entry{
		{"T13", "hook before a turn aborts it", "a hook before the turn that aborts", "turn", "no model call, stopped by a plugin; its code and message in the error", testBeforeTurnAbort},
		{"T26", "turn options hold for one turn", "turn options in the input", "turn", "validated, and used for this turn only", testTurnOptions},
		{"T27", "refused extension appends nothing", "an extension that the protocol refuses", "turn", "the call fails, nothing is appended", testExtensionRefused},
		{"T30", "failed hook after a turn fails the turn", "a hook after the turn that fails", "turn", "the turn fails with plugin_finalize_turn; what it came to is not committed", testAfterTurnError},
		{"T31", "hooks before a model call change the prompt", "two plugins with hooks before model calls", "turn of two model calls", "each call has the contributions and the instructions as of then; the next turn has none", testBeforeModelCall},
		{"T32", "hook before a model call switches frames", "a hook that switches before the second model call", "turn", "the turn ends with the results, and a follow-on turn has the task in the new frame", testSwitchBeforeModelCall},
	}
}

// testBeforeTurnAbort kills the first node that calls the hook.
func testBeforeTurnAbort(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Text("on")))
	var mu sync.Mutex
	requests, after := 0, 0
	started := make(chan struct{})
	stack := harness.PluginOf("guard", func(r *plugin.Registrar) {
		r.BeforeTurn(func(ctx context.Context, in plugin.TurnContext) ([]plugin.Directive, error) {
			mu.Lock()
			requests++
			n := requests
			mu.Unlock()
			switch {
			case n == 1:
				close(started)
				<-ctx.Done()
				return nil, ctx.Err()
			case in.Turn == "t1":
				return []plugin.Directive{plugin.Abort("no_budget", "the budget is spent")}, nil
			}
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
	got := make(chan []api.SessionEvent, 1)
	host := b.OtherHost()
	go func() { got <- b.TurnEvents(host, id, "t1", nil) }()
	harness.Receive(b, "the start", started)
	kill()
	b.StartNodeOn(b.Bus, stack)
	list := harness.Receive(b, "the turn's events", got)
	tags, _ := harness.EventNames(list)
	runtest.EqualLists(t, "events", tags, []string{"error", "turn_outcome", "done"})
	runtest.Equal(t, "error", list[0].Message, "the budget is spent")
	runtest.Equal(t, "kind", list[0].Envelope.Kind, "plugin")
	runtest.Equal(t, "code", list[0].Envelope.Code, "no_budget")
	runtest.Equal(t, "outcome", *list[1].TurnOutcome, api.TurnOutcome{Type: api.OutcomeStopped, Reason: events.EndPluginAbort})
	r, err := b.Await(b.Ctx, id, "t1")
	runtest.WantError(t, "await", err, nil)
	runtest.Equal(t, "end", r.End, events.EndPluginAbort)
	runtest.Equal(t, "model calls", len(b.Model.Requests()), 0)
	runtest.Equal(t, "hooks after the turn", after, 0)
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user hello"})
	runtest.Equal(t, "next turn", b.RunTurn(id, "t2", harness.Text("again")).Text, "on")
	runtest.EqualLists(t, "its prompt", b.Model.Prompt(0), []string{"user hello", "user again"})
}

// withOptions is a protocol with options {"steps":n}, which reports where it reads which.
func withOptions(saw func(where, options string)) plugin.Factory {
	p := harness.Protocol{
		Validate: func(_ context.Context, in events.TurnInput) error {
			var o struct{ Steps int }
			if len(in.Options) == 0 {
				return nil
			}
			if err := json.Unmarshal(in.Options, &o); err != nil || o.Steps < 1 {
				return errors.New("steps must be positive")
			}
			return nil
		},
		Before: func(in plugin.ModelCallContext) (*events.FrameSwitch, error) {
			saw("call of "+string(in.Turn), string(in.Options))
			return nil, nil //nolint:nilnil // no switch, no error
		},
	}
	return harness.PluginOf(standard.ID, func(r *plugin.Registrar) {
		r.Protocol(p)
		r.Driver(p)
		r.Prompt(func(_ context.Context, in plugin.PromptContext) ([]events.Contribution, error) {
			saw("prompt of "+string(in.Turn), string(in.Options))
			return nil, nil
		})
	})
}

// testTurnOptions kills the node in the turn that has options: the next one has them.
func testTurnOptions(t *testing.T) {
	started := make(chan struct{})
	b := harness.StartIdle(t, harness.Hang(started), harness.Reply(harness.Call("k", "add", `{"A":1,"B":2}`)), harness.Reply(harness.Text("one")), harness.Reply(harness.Text("two")))
	var mu sync.Mutex
	var seen []string
	stack := []plugin.Factory{withOptions(func(where, options string) {
		mu.Lock()
		defer mu.Unlock()
		if line := where + ": " + options; !slices.Contains(seen, line) { // the killed node's are seen again
			seen = append(seen, line)
		}
	}), plugin.OfTools("tools", func(events.SessionID) *plugin.Tools { return b.Tools })}
	harness.AddTool(b, events.EffectsNone)
	n, kill := b.StartNodeOn(b.Bus, stack...)
	plain := b.Host
	id := b.Open(api.CreateRequest{})
	runtest.WantError(t, "set options", plain.SetProtocolOptions(b.Ctx, id, json.RawMessage(`{"steps":1}`), false), nil)
	before := b.LastSeq(id)
	for _, options := range []string{`{"steps":0}`, `{`, `"x"`} {
		_, err := n.Host().Submit(b.Ctx, id, api.TurnRequest{Input: events.TurnInput{Options: []byte(options)}})
		runtest.WantError(t, "submit with options "+options, err, api.ErrProtocol)
	}
	runtest.Equal(t, "commits", b.LastSeq(id), before)
	_, err := plain.Run(b.Ctx, id, api.TurnRequest{ID: "bad", Input: events.TurnInput{Options: []byte(`{"steps":0}`)}})
	runtest.WantError(t, "run by a host that knows no protocol", err, api.ErrTurnFailed)

	_, err = plain.Submit(b.Ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{harness.Text("go")}, Options: []byte(`{"steps":9}`)}})
	runtest.WantError(t, "submit", err, nil)
	harness.Receive(b, "the start", started)
	kill()
	b.StartNodeOn(b.Bus, stack...)
	b.AwaitTurn(id, "t1")
	runtest.Equal(t, "options of the session", string(b.StateOf(id).Frame().Options), `{"steps":1}`)
	b.RunTurn(id, "t2", harness.Text("on"))
	runtest.EqualLists(t, "seen", seen, []string{
		`prompt of t1: {"steps":9}`, `call of t1: {"steps":9}`, `prompt of t2: {"steps":1}`, `call of t2: {"steps":1}`,
	})
	runtest.Equal(t, "options of the session", string(b.StateOf(id).Frame().Options), `{"steps":1}`)
}

func testExtensionRefused(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Text("on")))
	stack := harness.ProtocolPlugin(harness.Protocol{Validate: func(_ context.Context, in events.TurnInput) error {
		if in.Extension.Type == "bad" {
			return errors.New("no such extension")
		}
		return nil
	}})
	n, _ := b.StartNodeOn(b.Bus, stack)
	id := b.Open(api.CreateRequest{})
	b.AppendTexts(id, "before")
	bad := api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{harness.Text("go")}, Extension: events.Extension{Type: "bad", Body: []byte(`{}`)}}}
	before := b.LastSeq(id)
	for name, start := range map[string]func() error{
		"run":    func() error { _, err := n.Host().Run(b.Ctx, id, bad); return err },
		"submit": func() error { _, err := n.Host().Submit(b.Ctx, id, bad); return err },
		"stream": func() error { _, _, err := n.Host().StartTurnStream(b.Ctx, id, bad); return err },
	} {
		err := start()
		runtest.WantError(t, name, err, api.ErrProtocol)
		runtest.Equal(t, name+" says why", err != nil && strings.Contains(err.Error(), "no such extension"), true)
	}
	runtest.Equal(t, "commits", b.LastSeq(id), before)
	_, err := n.Host().Await(b.Ctx, id, "t1")
	runtest.WantError(t, "await", err, api.ErrUnknownTurn)

	// A host without the protocol receives the error from the worker.
	_, err = b.OtherHost().Run(b.Ctx, id, bad)
	runtest.WantError(t, "run elsewhere", err, api.ErrTurnFailed)
	failed, _ := errors.AsType[*api.TurnFailedError](err)
	runtest.Equal(t, "code", failed != nil && failed.Issue.Code == "protocol_turn_extension", true)
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user before"})
	runtest.Equal(t, "nodes", b.StateOf(id).Nodes, 1)
	runtest.Equal(t, "turns started", len(harness.Find[*events.TurnStarted](b, id)), 0)
	runtest.Equal(t, "model calls", len(b.Model.Requests()), 0)

	good := api.TurnRequest{Input: events.TurnInput{Parts: []events.Part{harness.Text("go")}, Extension: events.Extension{Type: "good"}}}
	r, err := n.Host().Run(b.Ctx, id, good)
	runtest.WantError(t, "run with another", err, nil)
	runtest.Equal(t, "text", r.Text, "on")
}

// testAfterTurnError has a turn whose final commit would open a frame and add a message. The first node that calls
// the hook is killed.
func testAfterTurnError(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "continue_as", "{}")), harness.Reply(harness.Text("on")))
	requested := make(chan struct{})
	var mu sync.Mutex
	requests := 0
	var notification []string
	persisted := make(chan struct{})
	stack := []plugin.Factory{harness.FrameSwitcher(nil), harness.PluginOf("finisher", func(r *plugin.Registrar) {
		r.AfterTurn(func(context.Context, plugin.TurnResultContext) ([]plugin.Directive, error) {
			return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleSystem, "never added"))}, nil
		})
		r.AfterTurn(func(ctx context.Context, in plugin.TurnResultContext) ([]plugin.Directive, error) {
			mu.Lock()
			requests++
			n := requests
			mu.Unlock()
			switch {
			case n == 1:
				close(requested)
				<-ctx.Done()
				return nil, ctx.Err()
			case in.Turn == "t1":
				return nil, harness.ErrPlugin
			}
			return nil, nil
		})
		r.Lifecycle(func(_ context.Context, e plugin.Lifecycle) error {
			mu.Lock()
			defer mu.Unlock()
			if e.Turn != "" {
				notification = append(notification, string(e.Kind)+" "+string(e.Turn))
			}
			if e.Turn == "t2" && e.Kind == plugin.TurnPersisted {
				close(persisted)
			}
			return nil
		})
	})}
	_, kill := b.StartNodeOn(b.Bus, stack...)
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	harness.Receive(b, "asking", requested)
	kill()
	n, stop := b.StartNodeOn(bustest.Open(t, b.Server), stack...)
	_, err := n.Host().Await(b.Ctx, id, "t1")
	runtest.WantError(t, "await", err, api.ErrTurnFailed)
	failed, _ := errors.AsType[*api.TurnFailedError](err)
	if failed == nil || failed.Issue.Code != "plugin_finalize_turn" || !strings.Contains(failed.Issue.Message, harness.ErrPlugin.Error()) {
		t.Errorf("await: got %v, want plugin_finalize_turn with the hook's error", err)
	}
	_, err = b.OtherHost().Run(b.Ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{harness.Text("go")}}})
	runtest.WantError(t, "run the same again", err, api.ErrTurnFailed)
	s := b.StateOf(id)
	runtest.Equal(t, "frames", len(s.Frames), 1)
	runtest.Equal(t, "queued turns", len(s.Queue), 0)
	// As after the commit before: the tool has run.
	before := []string{"user go", "assistant k:continue_as{}", "user k=switched"}
	runtest.EqualLists(t, "messages", b.Messages(id), before)
	b.RunTurn(id, "t2", harness.Text("again"))
	runtest.EqualLists(t, "prompt of the next turn", b.Model.Prompt(1), append(slices.Clone(before), "user again"))
	select {
	case <-persisted:
	case <-b.Ctx.Done():
		t.Fatal("end of t2: got nobody told, want it told after the commit")
	}
	stop() // waits for the hooks after a turn
	runtest.EqualLists(t, "notified", notification, []string{"turn_finalized t2", "turn_persisted t2"})
}
