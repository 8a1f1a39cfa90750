package system

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/examples/hook"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/embedded"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// TestFenceOfTheExample has the example of a hook judge paths in and out of its directory, and arguments that another plugin replaces.
func TestFenceOfTheExample(t *testing.T) {
	t.Parallel()
	var paths []string
	write := plugin.OfTool(plugin.Tool{Name: "write"}, func(_ context.Context, _ plugin.Call, to struct{ Path string }) (string, error) {
		paths = append(paths, to.Path)
		return "written", nil
	})
	other := plugin.OfTool(plugin.Tool{Name: "other"}, func(_ context.Context, _ plugin.Call, to struct{ Path int }) (int, error) { return to.Path, nil })
	replaces := plugin.Func("replaces", func(r *plugin.Registrar) error {
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			if string(in.Args) != `{"Path":"/tmp/replaced"}` {
				return nil, nil
			}
			return []plugin.Directive{plugin.ReplaceArgs(json.RawMessage(`{"Path":"/etc/replaced"}`))}, nil
		})
		return nil
	})
	var steps [][]events.Part
	for _, args := range []string{`{"Path":"/tmp/in"}`, `{"Path":"/tmpx/out"}`, `{"Path":"/tmp/../etc/out"}`, `{"Path":"out"}`, `{"Path":"/tmp/replaced"}`} {
		steps = append(steps, scripted.Call("write", args))
	}
	steps = append(steps, scripted.Call("other", `{"Path":1}`), scripted.Text("Done."))
	lash, err := embedded.Start(t.Context(), embedded.Config{Provider: scripted.Replies(steps...)}, write, other, hook.Fence("/tmp"), replaces)
	runtest.NoError(t, err)
	defer lash.Stop()
	id, err := lash.Create(t.Context(), api.CreateRequest{})
	runtest.NoError(t, err)
	turn, err := lash.Run(t.Context(), id, api.Ask("Write."))
	if err != nil || turn.ToolCalls != 6 || !slices.Equal(paths, []string{"/tmp/in"}) {
		t.Errorf("got %v, %d calls, %v, want one path that is written", paths, turn.ToolCalls, err)
	}
}
