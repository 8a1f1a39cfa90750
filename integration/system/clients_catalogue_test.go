package system

import (
	"context"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// TestToolsWithoutNode lists a session's tools over NATS after its node was killed: those that a projector wrote, with their contracts.
func TestToolsWithoutNode(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Text("done")))
	_, kill := b.StartNodeOn(bustest.Open(t, b.Server), harness.PluginOf("tools", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "measure"}, func(context.Context, plugin.Call, struct{ Length int }) (string, error) { return "", nil })
	}))
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("go"))
	c := harness.Dial(t, b.Bus)
	state, err := c.ToolState(b.Ctx, id)
	runtest.WantError(t, "tools by the node", err, nil)
	list, err := c.ToolCatalog(b.Ctx, id)
	runtest.WantError(t, "catalogue by the node", err, nil)
	runtest.Equal(t, "tools", len(list), 1)
	runtest.WantError(t, "projection", follow.NewProjector(b.Bus, nil).Project(b.Ctx, id), nil)
	kill()

	ctx, cancel := context.WithTimeout(b.Ctx, 20*time.Second) // a request would wait for a node
	defer cancel()
	stored, err := c.ToolState(ctx, id)
	runtest.WantError(t, "tools without a node", err, nil)
	runtest.Equal(t, "generation", stored.Generation, state.Generation)
	runtest.EqualLists(t, "tools without a node", namesOf(stored.Tools), namesOf(state.Tools))
	again, err := c.ToolCatalog(ctx, id)
	runtest.WantError(t, "catalogue without a node", err, nil)
	for i := range again {
		runtest.Equal(t, "item", string(again[i]), string(list[i]))
	}
	runtest.Equal(t, "items", len(again), 1)
}

func namesOf(tools []events.ToolEntry) (names []string) {
	for i := range tools {
		names = append(names, tools[i].Name)
	}
	return names
}
