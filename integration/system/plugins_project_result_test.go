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

// TestProjectorAdds has a result projector keep the text or replace it, and add attachments or none, to a result
// that has an attachment or none: the model reads the projector's text, and every attachment.
func TestProjectorAdds(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"kept", "replaced"} {
		for own := range 2 {
			for added := range 3 {
				t.Run(fmt.Sprintf("%s_%d_and_%d", text, own, added), func(t *testing.T) {
					t.Parallel()
					testProjectorAdds(t, text, own, added)
				})
			}
		}
	}
}

func testProjectorAdds(t *testing.T, shown string, own, added int) {
	pictures := func(n int, name string) (list []events.Part) {
		for i := range n {
			list = append(list, events.Part{Kind: events.PartAttachment, MediaType: "image/png", Text: fmt.Sprintf("%s%d", name, i)})
		}
		return list
	}
	b := harness.StartIdle(t, harness.Reply(harness.Call("k1", "draw", `{}`)), harness.Reply(harness.Text("done")))
	b.StartNode(harness.PluginOf("draws", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "draw", Effects: events.EffectsNone}, func(context.Context, plugin.Call, struct{}) (plugin.Result, error) {
			return plugin.Result{Text: "kept", Attachments: pictures(own, "own")}, nil
		})
		r.ProjectToolResult(func(context.Context, plugin.ToolResultContext) (string, []events.Part, error) {
			return shown, pictures(added, "added"), nil
		})
	}))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("hi"))
	b.AwaitTurn(id, "t1")

	result := harness.Find[*events.ToolReturned](b, id)[0].Results[0]
	harness.Equal(t, "text", result.Text, shown)
	harness.Equal(t, "output is kept beside the text", result.Full, map[string]string{"replaced": "kept"}[shown])
	var read []string
	for _, m := range b.Model.Requests()[1].Messages {
		for _, p := range m.Parts {
			if p.Kind == events.PartAttachment {
				read = append(read, p.Text)
			}
		}
	}
	want := []string{}
	for _, p := range append(pictures(own, "own"), pictures(added, "added")...) {
		want = append(want, p.Text)
	}
	harness.EqualLists(t, "attachments that the model reads", read, want)
}
