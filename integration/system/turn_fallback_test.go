package system

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/llm"
)

// namedProvider is a provider with a name and a function.
type namedProvider struct {
	id       string
	complete func(ctx context.Context, req llm.Request, sink func(llm.Delta)) (llm.Response, error)
}

func (o namedProvider) ID() string { return o.id }

func (o namedProvider) Complete(ctx context.Context, req llm.Request, sink func(llm.Delta)) (llm.Response, error) {
	return o.complete(ctx, req, sink)
}

// down is a provider whose every call streams text and then fails, at a cost.
func down(id string, kind llm.ErrorKind, streamed func()) namedProvider {
	return namedProvider{id, func(_ context.Context, req llm.Request, sink func(llm.Delta)) (llm.Response, error) {
		sink(llm.Delta{Kind: events.PartText, Text: "half"})
		streamed()
		return llm.Response{Usage: events.Usage{Input: 3, Output: 1}, Model: req.Model}, &llm.Error{Kind: kind, Code: "no", Message: "down"}
	}}
}

// up is a provider that replies with its name.
func up(id string) namedProvider {
	return namedProvider{id, func(_ context.Context, req llm.Request, _ func(llm.Delta)) (llm.Response, error) {
		return llm.Response{Parts: []events.Part{harness.Text(id)}, Stop: events.StopEnd, Usage: events.Usage{Input: 10, Output: 5}, Model: req.Model}, nil
	}}
}

// serves starts a node with these providers only, and returns how to stop it at once.
func turnServes(b *harness.System, on *bus.Bus, list ...namedProvider) (kill func()) {
	b.T.Helper()
	providers := make(map[string]llm.Provider)
	for _, p := range list {
		providers[p.id] = p
	}
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: []plugin.Factory{standard.Factory()}})
	runtest.WantError(b.T, "plugins", err, nil)
	n, err := workers.NewNode(workers.Config{
		Bus: on, Providers: providers, Plugins: builder, Logger: zaptest.NewLogger(b.T),
		ModelRetry: workers.ModelRetry{Attempts: 2, Base: time.Millisecond, Max: 2 * time.Millisecond},
	})
	runtest.WantError(b.T, "node", err, nil)
	return b.Launch(n)
}

// withFallbacks is a configuration whose second model is on no node.
var withFallbacks = events.Config{Provider: "main", Model: "m1", Fallbacks: []events.Fallback{{Provider: "gone", Model: "m2"}, {Provider: "backup", Model: "m3"}}}

// TestSmokeFallback runs turns of a session whose first model is down, with every way to configure the session.
func TestSmokeFallback(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	turnServes(b, bustest.Open(t, b.Server), down("main", llm.KindServer, func() {}), up("backup"))
	for name, w := range routesOf(b) {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // one node
			id := w.Create(events.Config{})
			w.Configure(id, withFallbacks)
			for range 2 { // the next turn begins with the first model again
				turn := w.Run(id, events.TurnInput{Parts: []events.Part{harness.Text("hello")}})
				runtest.Equal(t, "text", turn.Output.SafeText, "backup")
			}
			var models []string
			for _, p := range harness.Find[*events.ModelFailed](b, id) {
				models = append(models, p.Provider+"/"+p.Model+" "+p.Error+" "+p.Code)
			}
			failed := []string{"main/m1 server no", "gone/m2 invalid_request provider_unavailable"}
			runtest.EqualLists(t, "failed", models, append(failed, failed...))
			runtest.DeepEqual(t, "asked next", harness.Find[*events.ModelFailed](b, id)[0].Fallback, events.FallbackTo{Place: 1, Provider: "gone", Model: "m2"})
			runtest.DeepEqual(t, "and then", harness.Find[*events.ModelFailed](b, id)[1].Fallback, events.FallbackTo{Place: 2, Provider: "backup", Model: "m3"})
			for _, p := range harness.Find[*events.ModelReplied](b, id) {
				runtest.Equal(t, "answered", p.Provider+"/"+p.Model, "backup/m3")
			}
			runtest.EqualLists(t, "ledger", b.StateOf(id).Ledger, []projector.LedgerEntry{harness.LedgerRow("turn", "m1", 12, 4), harness.LedgerRow("turn", "m3", 20, 10)}) // two tries of each of two turns
			runtest.EqualLists(t, "messages", b.Messages(id), []string{"user hello", "assistant backup", "user hello", "assistant backup"})
			b.Verify(id)
		})
	}
}

// TestFallbackStream watches a turn whose first model fails in the middle of its reply: watchers receive a notice
// to discard it.
func TestFallbackStream(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	shown := make(chan struct{}, 2)
	turnServes(b, bustest.Open(t, b.Server), down("main", llm.KindTransport, func() { harness.Receive(b, "half to be shown", shown) }), up("backup"))
	id := b.Open(api.CreateRequest{Config: withFallbacks})
	_, list, err := b.StartTurnStream(b.Ctx, id, api.Ask("hello"))
	runtest.WantError(t, "stream", err, nil)
	now, requests := "", 0
	for a, err := range api.Activities(list) {
		runtest.WantError(t, "activity", err, nil)
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
	runtest.Equal(t, "text that stays", now, "backup")
	runtest.Equal(t, "models asked", requests, 3)
}

// TestFallbackTakeover kills a node during the call of the fallback. The node that takes over has no other
// provider, and continues with that one.
func TestFallbackTakeover(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	requested := make(chan struct{})
	hung := namedProvider{"backup", func(ctx context.Context, _ llm.Request, _ func(llm.Delta)) (llm.Response, error) {
		close(requested)
		<-ctx.Done()
		return llm.Response{}, ctx.Err()
	}}
	kill := turnServes(b, bustest.Open(t, b.Server), down("main", llm.KindRateLimit, func() {}), hung)
	id := b.Open(api.CreateRequest{Config: withFallbacks})
	b.StartTurn(id, "t1", harness.Text("hello"))
	harness.Receive(b, "the fallback's call", requested)
	kill()
	turnServes(b, bustest.Open(t, b.Server), up("backup"))
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.Equal(t, "failed", len(harness.Find[*events.ModelFailed](b, id)), 2)
	runtest.Equal(t, "starts", len(harness.Find[*events.TurnStarted](b, id)), 2)
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user hello", "assistant backup"})
	b.Verify(id)
}

// TestFallbackNot has failures after which no other model is called.
func TestFallbackNot(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	kinds := make(chan llm.ErrorKind, 1)
	main := namedProvider{"main", func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
		return llm.Response{}, &llm.Error{Kind: harness.Receive(b, "kind", kinds), Message: "no"}
	}}
	turnServes(b, bustest.Open(t, b.Server), main, up("backup"))
	id := b.Open(api.CreateRequest{Config: withFallbacks})
	for _, kind := range []llm.ErrorKind{llm.KindRequest, llm.KindAuth, llm.KindOverflow} {
		kinds <- kind
		turn := b.RunTurn(id, events.TurnID(kind), harness.Text("hello"))
		runtest.Equal(t, string(kind), turn.End, events.EndProviderError)
	}
	b.Verify(id)
}

// TestFallbacksRefused sends lists that are invalid in a session.
func TestFallbacksRefused(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	for field, list := range map[string][]events.Fallback{
		"config.fallbacks":             make([]events.Fallback, events.MaxFallbacks+1),
		"config.fallbacks[1].model":    {{Model: "m"}, {Provider: "p"}},
		"config.fallbacks[0].model":    {{Model: string(make([]byte, events.MaxIDBytes+1))}},
		"config.fallbacks[0].provider": {{Model: "m", Provider: string(make([]byte, events.MaxIDBytes+1))}},
	} {
		_, created := b.Create(b.Ctx, api.CreateRequest{Config: events.Config{Fallbacks: list}})
		configured := b.Configure(b.Ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config { c.Fallbacks = list; return c }})
		for operation, err := range map[string]error{"created": created, "configured": configured} {
			if e, ok := errors.AsType[*events.FieldError](err); !ok || e.Field != field {
				t.Errorf("%s: got %v, want %s refused", operation, err, field)
			}
		}
	}
}
