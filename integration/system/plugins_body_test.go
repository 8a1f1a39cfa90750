package system

import (
	"context"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
)

// TestStoredBodyElsewhere has calls name stored bytes that are no text: on another node, and inside another call. The results of the turn
// refer to the bytes.
func TestStoredBodyElsewhere(t *testing.T) {
	t.Parallel()
	body := []byte("\x89PNG\r\n\x1a\n\xff")
	draw := func(ctx context.Context, call plugin.Call, _ struct{}) (plugin.Result, error) {
		ref, err := call.StoreBody(ctx, body)
		return plugin.Result{Text: "drawn", Attachments: []events.Part{{Kind: events.PartAttachment, MediaType: "image/png", Blob: ref}}}, err
	}
	tools := func(events.SessionID) *plugin.Tools {
		list := plugin.NewTools()
		plugin.AddTool(list, plugin.Tool{Name: "draw", Effects: events.EffectsIdempotent, Portable: true}, draw)
		plugin.AddTool(list, plugin.Tool{Name: "inner", Effects: events.EffectsIdempotent}, draw)
		plugin.AddTool(list, plugin.Tool{Name: "outer", Effects: events.EffectsIdempotent}, func(ctx context.Context, call plugin.Call, _ struct{}) (plugin.Result, error) {
			got := call.Nested(ctx, 0, []plugin.NestedCall{{Tool: "inner"}})[0]
			return got.Result, got.Err
		})
		return list
	}
	f := harness.StartFleet(t)
	callFirst(f, harness.Call("a", "draw", "{}"), harness.Call("b", "outer", "{}"))
	f.Join(workers.Config{Roles: []workers.Role{workers.RoleTurn}, Tools: tools})
	f.Join(workers.Config{Roles: []workers.Role{workers.RoleTool}, Tools: tools})
	id := f.Open(api.CreateRequest{})
	f.StartTurn(id, "t1", harness.Text("go"))
	runtest.Equal(t, "end", f.AwaitTurn(id, "t1").End, events.EndFinished)
	stored := harness.Find[*events.BodyStored](f.System, id)
	runtest.Equal(t, "stored", len(stored), 1)
	want := []events.Part{{Kind: events.PartAttachment, MediaType: "image/png", Blob: stored[0].Blob}}
	results := f.ResultsByPosition(id)
	runtest.Equal(t, "results", len(results), 2)
	for i := range results {
		runtest.Equal(t, "text", results[i].Text, "drawn")
		runtest.DeepEqual(t, "attachments", results[i].Attachments, want)
	}
}
