package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/llm"
)

// other is a provider of its own name, made of a function.
type other struct {
	id  string
	say func(ctx context.Context, req llm.Request, sink func(llm.Delta)) (llm.Response, error)
}

func (o other) ID() string { return o.id }

func (o other) Complete(ctx context.Context, req llm.Request, sink func(llm.Delta)) (llm.Response, error) {
	return o.say(ctx, req, sink)
}

// down is a provider whose every call streams text and then fails, at a cost.
func down(id string, kind llm.ErrorKind, streamed func()) other {
	return other{id, func(_ context.Context, req llm.Request, sink func(llm.Delta)) (llm.Response, error) {
		sink(llm.Delta{Kind: events.PartText, Text: "half"})
		streamed()
		return llm.Response{Usage: events.Usage{Input: 3, Output: 1}, Model: req.Model}, &llm.Error{Kind: kind, Code: "no", Message: "down"}
	}}
}

// up is a provider that says its name.
func up(id string) other {
	return other{id, func(_ context.Context, req llm.Request, _ func(llm.Delta)) (llm.Response, error) {
		return llm.Response{Parts: []events.Part{text(id)}, Stop: events.StopEnd, Usage: events.Usage{Input: 10, Output: 5}, Model: req.Model}, nil
	}}
}

// serves starts a node with these providers and no other, and returns how to stop it at once.
func (b *bundle) serves(on *bus.Bus, list ...other) (kill func()) {
	b.t.Helper()
	providers := make(map[string]llm.Provider)
	for _, p := range list {
		providers[p.id] = p
	}
	h, err := plugin.NewHost(plugin.HostConfig{Builtins: []plugin.Factory{standard.Factory()}})
	must(b.t, "plugins", err, nil)
	n, err := workers.NewNode(workers.Config{
		Bus: on, Providers: providers, Plugins: h, Logger: zaptest.NewLogger(b.t),
		ModelRetry: workers.ModelRetry{Attempts: 2, Base: time.Millisecond, Max: 2 * time.Millisecond},
	})
	must(b.t, "node", err, nil)
	return b.startNode(n)
}

// withFallbacks is a configuration whose second model no node has.
var withFallbacks = events.Config{Provider: "main", Model: "m1", Fallbacks: []events.Fallback{{Provider: "gone", Model: "m2"}, {Provider: "backup", Model: "m3"}}}

// TestFallback runs turns of a session whose first model is down, whichever way the session is configured.
func TestFallback(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	b.serves(bustest.Open(t, b.server), down("main", llm.KindServer, func() {}), up("backup"))
	for name, w := range b.ways() {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // one node
			id := w.create(events.Config{})
			w.configure(id, withFallbacks)
			for range 2 { // the next turn begins with the first model again
				turn := w.run(id, events.TurnInput{Parts: []events.Part{text("hello")}})
				equal(t, "text", turn.Output.SafeText, "backup")
			}
			var models []string
			for _, p := range find[*events.ModelFailed](b, id) {
				models = append(models, p.Provider+"/"+p.Model+" "+p.Error+" "+p.Code)
			}
			failed := []string{"main/m1 server no", "gone/m2 invalid_request provider_unavailable"}
			equalLists(t, "failed", models, append(failed, failed...))
			alike(t, "asked next", find[*events.ModelFailed](b, id)[0].Fallback, events.FallbackTo{Place: 1, Provider: "gone", Model: "m2"})
			alike(t, "and then", find[*events.ModelFailed](b, id)[1].Fallback, events.FallbackTo{Place: 2, Provider: "backup", Model: "m3"})
			for _, p := range find[*events.ModelReplied](b, id) {
				equal(t, "answered", p.Provider+"/"+p.Model, "backup/m3")
			}
			equalLists(t, "ledger", b.state(id).Ledger, []projector.LedgerEntry{row("turn", "m1", 12, 4), row("turn", "m3", 20, 10)}) // two tries of each of two turns
			equalLists(t, "messages", b.messages(id), []string{"user hello", "assistant backup", "user hello", "assistant backup"})
			b.verified(id)
		})
	}
}

// TestFallbackStream watches a turn whose first model fails in the middle of its reply: that is taken back.
func TestFallbackStream(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	shown := make(chan struct{}, 2)
	b.serves(bustest.Open(t, b.server), down("main", llm.KindTransport, func() { receive(b, "half to be shown", shown) }), up("backup"))
	id := b.open(api.CreateRequest{Config: withFallbacks})
	_, list, err := b.StartTurnStream(b.ctx, id, api.Ask("hello"))
	must(t, "stream", err, nil)
	now, requests := "", 0
	for a, err := range api.Activities(list) {
		must(t, "activity", err, nil)
		switch a.Type { //nolint:exhaustive // the others are not about text
		case api.ActivityProse:
			if now += a.Event.Content; a.Event.Content == "half" {
				shown <- struct{}{}
			}
		case api.ActivityReset:
			now = ""
		case api.ActivityModelRequest:
			requests++
		}
	}
	equal(t, "text that stays", now, "backup")
	equal(t, "models asked", requests, 3)
}

// TestFallbackTakeover kills a node while the fallback is asked. The node that
// takes over, which has nothing else, goes on with that.
func TestFallbackTakeover(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	asked := make(chan struct{})
	hung := other{"backup", func(ctx context.Context, _ llm.Request, _ func(llm.Delta)) (llm.Response, error) {
		close(asked)
		<-ctx.Done()
		return llm.Response{}, ctx.Err()
	}}
	kill := b.serves(bustest.Open(t, b.server), down("main", llm.KindRateLimit, func() {}), hung)
	id := b.open(api.CreateRequest{Config: withFallbacks})
	b.submit(id, "t1", text("hello"))
	receive(b, "the fallback's call", asked)
	kill()
	b.serves(bustest.Open(t, b.server), up("backup"))
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	equal(t, "failed", len(find[*events.ModelFailed](b, id)), 2)
	equal(t, "starts", len(find[*events.TurnStarted](b, id)), 2)
	equalLists(t, "messages", b.messages(id), []string{"user hello", "assistant backup"})
	b.verified(id)
}

// TestFallbackNot has failures that are no reason to ask another model.
func TestFallbackNot(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	kinds := make(chan llm.ErrorKind, 1)
	main := other{"main", func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
		return llm.Response{}, &llm.Error{Kind: receive(b, "kind", kinds), Message: "no"}
	}}
	b.serves(bustest.Open(t, b.server), main, up("backup"))
	id := b.open(api.CreateRequest{Config: withFallbacks})
	for _, kind := range []llm.ErrorKind{llm.KindRequest, llm.KindAuth, llm.KindOverflow} {
		kinds <- kind
		turn := b.run(id, events.TurnID(kind), text("hello"))
		equal(t, string(kind), turn.End, events.EndProviderError)
	}
	b.verified(id)
}

// TestFallbacksRefused sends lists that no session may have.
func TestFallbacksRefused(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	for field, list := range map[string][]events.Fallback{
		"config.fallbacks":             make([]events.Fallback, events.MaxFallbacks+1),
		"config.fallbacks[1].model":    {{Model: "m"}, {Provider: "p"}},
		"config.fallbacks[0].model":    {{Model: string(make([]byte, events.MaxIDBytes+1))}},
		"config.fallbacks[0].provider": {{Model: "m", Provider: string(make([]byte, events.MaxIDBytes+1))}},
	} {
		_, created := b.Create(b.ctx, api.CreateRequest{Config: events.Config{Fallbacks: list}})
		configured := b.Configure(b.ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config { c.Fallbacks = list; return c }})
		for way, err := range map[string]error{"created": created, "configured": configured} {
			if e, ok := errors.AsType[*events.FieldError](err); !ok || e.Field != field {
				t.Errorf("%s: got %v, want %s refused", way, err, field)
			}
		}
	}
}
