package catalogue

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
)

func capabilityEntries() []entry {
	return []entry{
		{"P35", "change of the configuration is told at least once", "a plugin whose node dies while it is told of a change", "another node", "told there, and not again", testChangeTold},
		{"P36", "result projector returns the view", "one that keeps or replaces the text, and keeps, takes away and adds attachments", "a tool's result", "the model reads what it returns; the record has the whole beside it", testProjectorView},
		{"X29", "contracts are stored before the catalogue", "a change of the catalogue whose host dies at any write", "another host lists the tools", "each tool of the history has its contract", testKilledCatalogue},
	}
}

func testChangeTold(t *testing.T) {
	b := harness.StartIdle(t)
	heard, goesOn := make(chan string, 4), make(chan struct{})
	listens := func(who string, until <-chan struct{}) plugin.Factory {
		return harness.LifecyclePlugin("diary", func(ctx context.Context, kind plugin.LifecycleKind) error {
			if kind == plugin.SessionConfigChanged {
				heard <- who
				select {
				case <-until:
				case <-ctx.Done():
				}
			}
			return nil
		})
	}
	close(goesOn)
	first, kill := b.StartNodeOn(bustest.Open(t, b.Server), listens("first", nil))
	b.Host = first.Host()
	id := b.Open(api.CreateRequest{})
	runtest.WantError(t, "configure", b.SetModel(id, "m1"), nil)
	runtest.Equal(t, "told", harness.Receive(b, "the first", heard), "first")
	kill()
	b.Host = b.NewHost(b.Bus)
	b.StartNodeOn(bustest.Open(t, b.Server), listens("second", goesOn))
	runtest.Equal(t, "told again", harness.Receive(b, "the second", heard), "second")
	b.AwaitState(id, "that plugins were told", harness.AllNotified)
	b.AwaitUnqueued(id)
	runtest.Equal(t, "told more", len(heard), 0)
}

func testProjectorView(t *testing.T) {
	for _, text := range []string{"kept", "replaced"} {
		for own := range 3 {
			for kept := range own + 1 {
				for added := range 2 {
					t.Run(fmt.Sprintf("%s_%d_of_%d_and_%d", text, kept, own, added), func(t *testing.T) {
						t.Parallel()
						testProjectedParts(t, text, own, kept, added)
					})
				}
			}
		}
	}
}

func testProjectedParts(t *testing.T, shown string, own, kept, added int) {
	pictures := func(n int, name string) (list []events.Part) {
		for i := range n {
			list = append(list, events.Part{Kind: events.PartAttachment, MediaType: "image/png", Text: fmt.Sprintf("%s%d", name, i)})
		}
		return list
	}
	texts := func(parts []events.Part) []string {
		list := []string{}
		for _, p := range parts {
			if p.Kind == events.PartAttachment {
				list = append(list, p.Text)
			}
		}
		return list
	}
	b := harness.StartIdle(t, harness.Reply(harness.Call("k1", "draw", `{}`)), harness.Reply(harness.Text("done")))
	b.StartNode(harness.PluginOf("draws", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "draw", Effects: events.EffectsNone}, func(context.Context, plugin.Call, struct{}) (plugin.Result, error) {
			return plugin.Result{Text: "kept", Attachments: pictures(own, "own")}, nil
		})
		r.ProjectToolResult(func(_ context.Context, in plugin.ToolResultContext) (plugin.View, error) {
			return plugin.View{Text: shown, Attachments: append(in.View().Attachments[own-kept:], pictures(added, "added")...)}, nil
		})
	}))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("hi"))
	b.AwaitTurn(id, "t1")

	result := harness.Find[*events.ToolReturned](b, id)[0].Results[0]
	runtest.Equal(t, "text", result.Text, shown)
	runtest.Equal(t, "output is kept beside the text", result.Full, map[string]string{"replaced": "kept"}[shown])
	runtest.EqualLists(t, "attachments beside those for the model", texts(result.Unseen), texts(pictures(own-kept, "own")))
	var read []events.Part
	for _, m := range b.Model.Requests()[1].Messages {
		read = append(read, m.Parts...)
	}
	runtest.EqualLists(t, "attachments that the model reads", texts(read), append(texts(pictures(own, "own"))[own-kept:], texts(pictures(added, "added"))...))
}

func testKilledCatalogue(t *testing.T) {
	b := harness.StartIdle(t)
	other := b.OtherHost()
	for _, late := range []bool{false, true} {
		finished := false
		for k := 1; !finished; k++ {
			id, contract := b.Open(api.CreateRequest{}), fmt.Sprintf("contract %t %d", late, k) // each is new to the store
			builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: workers.Builtins(), Factories: []plugin.Factory{harness.PluginOf("own", func(r *plugin.Registrar) {
				plugin.AddTool(r, plugin.Tool{Name: "own", Schema: &jsonschema.Schema{Type: "object", Description: contract}}, func(context.Context, plugin.Call, map[string]any) (string, error) { return "", nil })
			})}})
			runtest.WantError(t, "plugins", err, nil)
			finished = bustest.KilledAt(t, b.Server, k, late, func(ctx context.Context, victim *bus.Bus) error {
				host, err := session.New(session.Config{Bus: victim, Plugins: session.WithPlugins(builder)})
				if err == nil {
					_, err = host.SetToolsAvailability(ctx, id, []string{"own"}, events.Overridden(events.AvailCallable))
				}
				return err
			})
			list, err := other.ToolState(b.Ctx, id)
			runtest.WantError(t, "list", err, nil)
			runtest.Equal(t, "the tool is there at the end", len(list.Tools) > 0 || !finished, true)
			for i := range list.Tools {
				if !strings.Contains(string(list.Tools[i].Look().Schema), contract) {
					t.Errorf("late %t, write %d: got the schema %q, want %s", late, k, list.Tools[i].Look().Schema, contract)
				}
			}
		}
	}
}
