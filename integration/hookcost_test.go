package integration

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// quiet is a plugin with a hook that does nothing at every point.
func quiet(r *plugin.Registrar) error {
	r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) { return nil, nil })
	r.BeforeToolCall(func(context.Context, plugin.ToolContext) ([]plugin.Directive, error) { return nil, nil })
	r.AfterToolCall(func(context.Context, plugin.ToolResultContext) ([]plugin.Directive, error) { return nil, nil })
	r.Checkpoint(func(context.Context, plugin.CheckpointContext) ([]plugin.Directive, error) { return nil, nil })
	r.AfterTurn(func(context.Context, plugin.TurnResultContext) ([]plugin.Directive, error) { return nil, nil })
	return nil
}

// TestHooksCostNoWrite counts the durable writes of a turn with two rounds of
// repeatable tools: as many with hooks at every point as with none. What may
// linger waits for a minute, so that no clock has a say.
func TestHooksCostNoWrite(t *testing.T) {
	t.Parallel()
	for name, hooks := range map[string][]plugin.Factory{"none": nil, "every_point": {plugin.Func("quiet", quiet)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupIdle(t, reply(call("c1", "look", `{}`)), reply(call("c2", "look", `{}`)), reply(text("done")))
			tools := plugin.OfTools("tools", func(events.SessionID) *plugin.Tools {
				set := plugin.NewTools()
				plugin.AddTool(set, plugin.Tool{Name: "look", Effects: events.EffectsNone},
					func(context.Context, plugin.Call, struct{}) (string, error) { return "seen", nil })
				return set
			})
			h, err := plugin.NewHost(plugin.HostConfig{Builtins: []plugin.Factory{standard.Factory()}, Factories: append(hooks, tools)})
			if err != nil {
				t.Fatal(err)
			}
			w, err := workers.NewNode(workers.Config{
				Roles: turnRoles(),
				Bus:   b.bus, Providers: map[string]llm.Provider{"scripted": scripted.New(b.model.answer)}, Provider: "scripted",
				Plugins: h, Linger: time.Minute, Logger: zaptest.NewLogger(t),
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Start(b.ctx); err != nil {
				t.Fatal(err)
			}
			defer w.Stop(b.ctx)
			id := b.open(api.CreateRequest{})
			opened := b.last(id)
			if got := b.run(id, "t1", text("go")); got.End != events.EndFinished {
				t.Errorf("end: got %s, want finished", got.End)
			}
			// The request and the claim; then one for each reply, the results before it within.
			equal(t, "writes of the turn", b.last(id)-opened, 5)
		})
	}
}
