package security

import (
	"context"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// TestVerifierRebuildsPluginPrompts rebuilds prompts that plugins have changed: with contributions, behind a gate that opens in
// the middle of the turn, and with a replaced conversation.
func TestVerifierRebuildsPluginPrompts(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "unlock", "{}")), harness.Reply(harness.Call("k", "look", "{}")), harness.Reply(harness.Text("done")), harness.Reply(harness.Text("again")))
	b.StartNode(harness.PluginOf("shaping", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "unlock"}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			_, err := c.Host.SetToolAvailability(ctx, c.Session, "look", events.Overridden(events.AvailShowcased))
			return "unlocked", err
		})
		plugin.AddTool(r, plugin.Tool{Name: "look", Level: events.AvailOff}, func(context.Context, plugin.Call, struct{}) (string, error) {
			return "seen", nil
		})
		r.Prompt(func(context.Context, plugin.PromptContext) ([]events.Contribution, error) {
			return []events.Contribution{
				{Slot: events.SlotIntro, Content: "be good"},
				{Slot: events.SlotGuidance, Content: "look first", Tools: []string{"look"}, Minimum: "callable"},
			}, nil
		})
		r.TransformContext(1, func(_ context.Context, _ plugin.TransformContext, now plugin.Prepared) (plugin.Prepared, error) {
			now.Messages = append(now.Messages[:len(now.Messages):len(now.Messages)], plugin.Say(events.RoleSystem, "shown, not said"))
			return now, nil
		})
	}))
	id := b.Open(api.CreateRequest{})
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndFinished)
	runtest.Equal(t, "before the gate", b.Model.Prompt(0)[0], "system be good")
	runtest.Equal(t, "behind the gate", b.Model.Prompt(1)[0], "system be good\n\nlook first")
	runtest.Equal(t, "view", b.Model.Prompt(1)[2], "system shown, not said")
	b.RunTurn(id, "t2", harness.Text("again"))
	harness.VerifyHistory(t, b.Bus, id)
}
