// Package state is a plugin with a state. The state is part of the session's history, so every node has it, also after
// a crash.
package state

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

// Notes lets the model take notes, and shows all notes to it in every turn.
func Notes() plugin.Factory {
	return plugin.New("notes", func(plugin.BuildContext) (plugin.Plugin, error) { return &notes{}, nil })
}

type notes struct{ plugin.State[[]string] }

func (n *notes) Register(r *plugin.Registrar) error {
	r.Prompt(func(context.Context, plugin.PromptContext) ([]events.Contribution, error) {
		return []events.Contribution{{Slot: events.SlotGuidance, Content: fmt.Sprintf("Your notes: %q", n.Load())}}, nil
	})
	plugin.AddTool(r, plugin.Tool{Name: "note"}, func(_ context.Context, _ plugin.Call, in struct{ Text string }) (string, error) {
		n.Update(func(list *[]string) { *list = append(*list, in.Text) }) // lands with the result, or not at all
		return "noted", nil
	})
	return nil
}
