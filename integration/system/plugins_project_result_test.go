package system

import (
	"context"
	"fmt"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// TestProjectorView has a result projector keep the text or replace it, and keep, take away and add attachments: the model reads what the
// projector returns, and the history has the whole result beside it.
func TestProjectorView(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"kept", "replaced"} {
		for own := range 3 {
			for kept := range own + 1 {
				for added := range 2 {
					t.Run(fmt.Sprintf("%s_%d_of_%d_and_%d", text, kept, own, added), func(t *testing.T) {
						t.Parallel()
						testProjectorView(t, text, own, kept, added)
					})
				}
			}
		}
	}
}

func testProjectorView(t *testing.T, shown string, own, kept, added int) {
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
	harness.Equal(t, "text", result.Text, shown)
	harness.Equal(t, "output is kept beside the text", result.Full, map[string]string{"replaced": "kept"}[shown])
	harness.EqualLists(t, "attachments beside those for the model", texts(result.Unseen), texts(pictures(own-kept, "own")))
	var read []events.Part
	for _, m := range b.Model.Requests()[1].Messages {
		read = append(read, m.Parts...)
	}
	harness.EqualLists(t, "attachments that the model reads", texts(read), append(texts(pictures(own, "own"))[own-kept:], texts(pictures(added, "added"))...))
}
