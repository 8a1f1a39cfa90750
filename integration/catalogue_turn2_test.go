package integration

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
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/standard"
)

func turnEntries2() []entry {
	return []entry{
		{"T13", "a hook before the turn that aborts", "turn", "no model call, stopped by a plugin; its code and message in the error", testBeforeTurnAbort},
		{"T26", "turn options in the input", "turn", "validated, and used for this turn only", testTurnOptions},
		{"T27", "an extension that the protocol refuses", "turn", "the call fails, nothing is appended", testExtensionRefused},
		{"T30", "a hook after the turn that fails", "turn", "the turn fails with plugin_finalize_turn; what it came to is not committed", testAfterTurnError},
	}
}

// testBeforeTurnAbort kills the node that asks the hook first.
func testBeforeTurnAbort(t *testing.T) {
	b := setupIdle(t, reply(text("on")))
	var mu sync.Mutex
	asked, after := 0, 0
	begun := make(chan struct{})
	stack := declares("guard", func(r *plugin.Registrar) {
		r.BeforeTurn(func(ctx context.Context, in plugin.TurnContext) ([]plugin.Directive, error) {
			mu.Lock()
			asked++
			n := asked
			mu.Unlock()
			switch {
			case n == 1:
				close(begun)
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
	_, kill := b.nodeOn(b.bus, stack)
	id := b.open(api.CreateRequest{})
	got := make(chan []api.SessionEvent, 1)
	host := b.otherHost()
	go func() { got <- b.turnEvents(host, id, "t1", nil) }()
	receive(b, "begun", begun)
	kill()
	b.nodeOn(b.bus, stack)
	list := receive(b, "the turn's events", got)
	tags, _ := names(list)
	equalLists(t, "events", tags, []string{"error", "turn_outcome", "done"})
	equal(t, "error", list[0].Message, "the budget is spent")
	equal(t, "kind", list[0].Envelope.Kind, "plugin")
	equal(t, "code", list[0].Envelope.Code, "no_budget")
	equal(t, "outcome", *list[1].TurnOutcome, api.TurnOutcome{Type: api.OutcomeStopped, Reason: events.EndPluginAbort})
	r, err := b.Await(b.ctx, id, "t1")
	must(t, "await", err, nil)
	equal(t, "end", r.End, events.EndPluginAbort)
	equal(t, "model calls", len(b.model.asked()), 0)
	equal(t, "hooks after the turn", after, 0)
	equalLists(t, "messages", b.messages(id), []string{"user hello"})
	equal(t, "next turn", b.run(id, "t2", text("again")).Text, "on")
	equalLists(t, "its prompt", b.model.prompt(0), []string{"user hello", "user again"})
}

// withOptions is a protocol that wants {"steps":n} as options, and tells where it sees which.
func withOptions(saw func(where, options string)) plugin.Factory {
	p := protocol{
		validate: func(_ context.Context, in events.TurnInput) error {
			var o struct{ Steps int }
			if len(in.Options) == 0 {
				return nil
			}
			if err := json.Unmarshal(in.Options, &o); err != nil || o.Steps < 1 {
				return errors.New("steps must be positive")
			}
			return nil
		},
		before: func(in plugin.ModelCallContext) (*events.FrameSwitch, error) {
			saw("call of "+string(in.Turn), string(in.Options))
			return nil, nil //nolint:nilnil // no switch, no error
		},
	}
	return declares(standard.ID, func(r *plugin.Registrar) {
		r.Protocol(p)
		r.Driver(p)
		r.Prompt(func(_ context.Context, in plugin.PromptContext) ([]events.Contribution, error) {
			saw("prompt of "+string(in.Turn), string(in.Options))
			return nil, nil
		})
	})
}

// testTurnOptions kills the node in the turn that has options: the next one knows them.
func testTurnOptions(t *testing.T) {
	begun := make(chan struct{})
	b := setupIdle(t, hangs(begun), reply(call("k", "add", `{"A":1,"B":2}`)), reply(text("one")), reply(text("two")))
	var mu sync.Mutex
	var seen []string
	stack := []plugin.Factory{withOptions(func(where, options string) {
		mu.Lock()
		defer mu.Unlock()
		if line := where + ": " + options; !slices.Contains(seen, line) { // the killed node's are seen again
			seen = append(seen, line)
		}
	}), plugin.OfTools("tools", func(events.SessionID) *plugin.Tools { return b.tools })}
	adder(b, events.EffectsNone)
	n, kill := b.nodeOn(b.bus, stack...)
	plain := b.Host
	id := b.open(api.CreateRequest{})
	must(t, "set options", plain.SetProtocolOptions(b.ctx, id, json.RawMessage(`{"steps":1}`), false), nil)
	before := b.last(id)
	for _, options := range []string{`{"steps":0}`, `{`, `"x"`} {
		_, err := n.Host().Submit(b.ctx, id, api.TurnRequest{Input: events.TurnInput{Options: []byte(options)}})
		must(t, "submit with options "+options, err, api.ErrProtocol)
	}
	equal(t, "commits", b.last(id), before)
	_, err := plain.Run(b.ctx, id, api.TurnRequest{ID: "bad", Input: events.TurnInput{Options: []byte(`{"steps":0}`)}})
	must(t, "run by a host that knows no protocol", err, api.ErrTurnFailed)

	_, err = plain.Submit(b.ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{text("go")}, Options: []byte(`{"steps":9}`)}})
	must(t, "submit", err, nil)
	receive(b, "begun", begun)
	kill()
	b.nodeOn(b.bus, stack...)
	b.ended(id, "t1")
	equal(t, "options of the session", string(b.state(id).Frame().Options), `{"steps":1}`)
	b.run(id, "t2", text("on"))
	equalLists(t, "seen", seen, []string{
		`prompt of t1: {"steps":9}`, `call of t1: {"steps":9}`, `prompt of t2: {"steps":1}`, `call of t2: {"steps":1}`,
	})
	equal(t, "options of the session", string(b.state(id).Frame().Options), `{"steps":1}`)
}

func testExtensionRefused(t *testing.T) {
	b := setupIdle(t, reply(text("on")))
	stack := speaks(protocol{validate: func(_ context.Context, in events.TurnInput) error {
		if in.Extension.Type == "bad" {
			return errors.New("no such extension")
		}
		return nil
	}})
	n, _ := b.nodeOn(b.bus, stack)
	id := b.open(api.CreateRequest{})
	b.say(id, "before")
	bad := api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{text("go")}, Extension: events.Extension{Type: "bad", Body: []byte(`{}`)}}}
	before := b.last(id)
	for name, start := range map[string]func() error{
		"run":    func() error { _, err := n.Host().Run(b.ctx, id, bad); return err },
		"submit": func() error { _, err := n.Host().Submit(b.ctx, id, bad); return err },
		"stream": func() error { _, _, err := n.Host().StartTurnStream(b.ctx, id, bad); return err },
	} {
		err := start()
		must(t, name, err, api.ErrProtocol)
		equal(t, name+" says why", err != nil && strings.Contains(err.Error(), "no such extension"), true)
	}
	equal(t, "commits", b.last(id), before)
	_, err := n.Host().Await(b.ctx, id, "t1")
	must(t, "await", err, api.ErrUnknownTurn)

	// A host that knows no protocol hears of it from the worker.
	_, err = b.otherHost().Run(b.ctx, id, bad)
	must(t, "run elsewhere", err, api.ErrTurnFailed)
	failed, _ := errors.AsType[*api.TurnFailedError](err)
	equal(t, "code", failed != nil && failed.Issue.Code == "protocol_turn_extension", true)
	equalLists(t, "messages", b.messages(id), []string{"user before"})
	equal(t, "nodes", b.state(id).Nodes, 1)
	equal(t, "turns started", len(find[*events.TurnStarted](b, id)), 0)
	equal(t, "model calls", len(b.model.asked()), 0)

	good := api.TurnRequest{Input: events.TurnInput{Parts: []events.Part{text("go")}, Extension: events.Extension{Type: "good"}}}
	r, err := n.Host().Run(b.ctx, id, good)
	must(t, "run with another", err, nil)
	equal(t, "text", r.Text, "on")
}

// testAfterTurnError has a turn whose final commit would open a frame and add a
// message. The node that asks the hook first is killed.
func testAfterTurnError(t *testing.T) {
	b := setupIdle(t, reply(call("k", "continue_as", "{}")), reply(text("on")))
	asking := make(chan struct{})
	var mu sync.Mutex
	asked := 0
	var told []string
	persisted := make(chan struct{})
	stack := []plugin.Factory{switcher(nil), declares("finisher", func(r *plugin.Registrar) {
		r.AfterTurn(func(context.Context, plugin.TurnResultContext) ([]plugin.Directive, error) {
			return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleSystem, "never added"))}, nil
		})
		r.AfterTurn(func(ctx context.Context, in plugin.TurnResultContext) ([]plugin.Directive, error) {
			mu.Lock()
			asked++
			n := asked
			mu.Unlock()
			switch {
			case n == 1:
				close(asking)
				<-ctx.Done()
				return nil, ctx.Err()
			case in.Turn == "t1":
				return nil, errRefusal
			}
			return nil, nil
		})
		r.Lifecycle(func(_ context.Context, e plugin.Lifecycle) error {
			mu.Lock()
			defer mu.Unlock()
			if e.Turn != "" {
				told = append(told, string(e.Kind)+" "+string(e.Turn))
			}
			if e.Turn == "t2" && e.Kind == plugin.TurnPersisted {
				close(persisted)
			}
			return nil
		})
	})}
	_, kill := b.nodeOn(b.bus, stack...)
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	receive(b, "asking", asking)
	kill()
	n, stop := b.nodeOn(bustest.Open(t, b.server), stack...)
	_, err := n.Host().Await(b.ctx, id, "t1")
	must(t, "await", err, api.ErrTurnFailed)
	failed, _ := errors.AsType[*api.TurnFailedError](err)
	if failed == nil || failed.Issue.Code != "plugin_finalize_turn" || !strings.Contains(failed.Issue.Message, errRefusal.Error()) {
		t.Errorf("await: got %v, want plugin_finalize_turn with the hook's error", err)
	}
	_, err = b.otherHost().Run(b.ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{text("go")}}})
	must(t, "run the same again", err, api.ErrTurnFailed)
	s := b.state(id)
	equal(t, "frames", len(s.Frames), 1)
	equal(t, "queued turns", len(s.Queue), 0)
	// As after the commit before: the tool has run.
	before := []string{"user go", "assistant k:continue_as{}", "user k=switched"}
	equalLists(t, "messages", b.messages(id), before)
	b.run(id, "t2", text("again"))
	equalLists(t, "prompt of the next turn", b.model.prompt(1), append(slices.Clone(before), "user again"))
	select {
	case <-persisted:
	case <-b.ctx.Done():
		t.Fatal("end of t2: got nobody told, want it told after the commit")
	}
	stop() // waits for what is told after a turn
	equalLists(t, "told", told, []string{"turn_finalized t2", "turn_persisted t2"})
}
