package system

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

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

// noopHooks is a plugin with a hook that does nothing at every point.
func noopHooks(r *plugin.Registrar) error {
	r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) { return nil, nil })
	r.BeforeModelCall(func(context.Context, plugin.ModelContext) ([]plugin.Directive, error) { return nil, nil })
	r.BeforeToolCall(func(context.Context, plugin.ToolContext) ([]plugin.Directive, error) { return nil, nil })
	r.AfterToolCall(func(context.Context, plugin.ToolResultContext) ([]plugin.Directive, error) { return nil, nil })
	r.Checkpoint(func(context.Context, plugin.CheckpointContext) ([]plugin.Directive, error) { return nil, nil })
	r.AfterTurn(func(context.Context, plugin.TurnResultContext) ([]plugin.Directive, error) { return nil, nil })
	return nil
}

// TestHooksCostNoWrite counts the durable writes of a turn with two rounds of repeatable tools: hooks at every
// point add none. Delayed writes wait for a minute, so that the clock does not affect the count.
func TestHooksCostNoWrite(t *testing.T) {
	t.Parallel()
	for name, hooks := range map[string][]plugin.Factory{"none": nil, "every_point": {plugin.Func("quiet", noopHooks)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := harness.StartIdle(t, harness.Reply(harness.Call("c1", "look", `{}`)), harness.Reply(harness.Call("c2", "look", `{}`)), harness.Reply(harness.Text("done")))
			tools := plugin.OfTools("tools", func(events.SessionID) *plugin.Tools {
				set := plugin.NewTools()
				plugin.AddTool(set, plugin.Tool{Name: "look", Effects: events.EffectsNone},
					func(context.Context, plugin.Call, struct{}) (string, error) { return "seen", nil })
				return set
			})
			builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: []plugin.Factory{standard.Factory()}, Factories: append(hooks, tools)})
			runtest.NoError(t, err)
			w, err := workers.NewNode(workers.Config{
				Roles: harness.TurnRoles(),
				Bus:   b.Bus, Providers: map[string]llm.Provider{"scripted": scripted.New(b.Model.Answer)}, Provider: "scripted",
				Plugins: builder, Linger: time.Minute, Logger: zaptest.NewLogger(t),
			})
			runtest.NoError(t, err)
			runtest.NoError(t, w.Start(b.Ctx))
			defer w.Stop(b.Ctx)
			id := b.Open(api.CreateRequest{})
			opened := b.LastSeq(id)
			if got := b.RunTurn(id, "t1", harness.Text("go")); got.End != events.EndFinished {
				t.Errorf("end: got %s, want finished", got.End)
			}
			// The request and the claim; then one for each reply, with the results before it.
			runtest.Equal(t, "writes of the turn", b.LastSeq(id)-opened, 5)
		})
	}
}
