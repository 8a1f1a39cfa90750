package integration

import (
	"context"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// TestVerifiedPlugins rebuilds prompts that plugins had their hands in: what
// they contributed, behind a gate that opens in the middle of the turn, and
// what they showed instead of the conversation.
func TestVerifiedPlugins(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(call("k", "unlock", "{}")), reply(call("k", "look", "{}")), reply(text("done")), reply(text("again")))
	b.node(declares("shaping", func(r *plugin.Registrar) {
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
	id := b.open(api.CreateRequest{})
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndFinished)
	equal(t, "before the gate", b.model.prompt(0)[0], "system be good")
	equal(t, "behind the gate", b.model.prompt(1)[0], "system be good\n\nlook first")
	equal(t, "view", b.model.prompt(1)[2], "system shown, not said")
	b.run(id, "t2", text("again"))
	verified(t, b.bus, id)
}
