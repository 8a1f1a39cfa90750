// Package todo gives the model a list of its next steps: the tool update_plan replaces the list, the prompt of the
// next turn has the open items, and hosts receive the list after every change.
//
// Guarantees: the list is part of the history, and is recorded with the result of its update, both or neither. The
// package imports session/plugin and events.
package todo

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

// ID names the plugin in histories.
const ID = "todo"

const tool = "update_plan"

// The statuses of an item.
const (
	pending    = "pending"
	inProgress = "in_progress"
	completed  = "completed"
)

// maxItems limits the list.
const maxItems = 100

// planItem is a step of the plan.
type planItem struct {
	Text   string `json:"text"`
	Status string `json:"status" jsonschema:"pending, in_progress or completed; at most one is in progress"`
}

// plan is the plugin's state, the tool's arguments, and the body of its event.
type plan struct {
	Items []planItem `json:"items"`
}

// Factory builds the plugin.
func Factory() plugin.Factory {
	return plugin.New(ID, func(plugin.BuildContext) (plugin.Plugin, error) { return &todo{}, nil })
}

type todo struct{ plugin.State[plan] }

func (t *todo) Register(r *plugin.Registrar) error {
	plugin.AddTool(r, plugin.Tool{
		Name: tool, Effects: events.EffectsIdempotent,
		Description: "Replaces your list of steps. Keep it up to date while you work on anything with several steps.",
	}, t.update)
	r.AfterToolCall(t.publish)
	r.Prompt(t.contribute)
	return nil
}

func (t *todo) update(_ context.Context, _ plugin.Call, in plan) (string, error) {
	count := make(map[string]int)
	for i, item := range in.Items {
		switch item.Status {
		case pending, inProgress, completed:
			count[item.Status]++
		default:
			return "", plugin.InvalidArgs("items[%d]: status %q, want %s, %s or %s", i, item.Status, pending, inProgress, completed)
		}
		if strings.TrimSpace(item.Text) == "" {
			return "", plugin.InvalidArgs("items[%d]: text is blank", i)
		}
	}
	if count[inProgress] > 1 || len(in.Items) > maxItems {
		return "", plugin.InvalidArgs("%d items with %d in progress, want at most %d with one", len(in.Items), count[inProgress], maxItems)
	}
	t.Update(func(p *plan) { *p = in })
	return fmt.Sprintf("%d of %d completed", count[completed], len(in.Items)), nil
}

// publish sends hosts a changed list.
func (t *todo) publish(_ context.Context, in plugin.ToolResultContext) ([]plugin.Directive, error) {
	if in.Tool != tool || in.Result.Outcome != events.OutcomeSuccess {
		return nil, nil
	}
	event, err := json.Marshal(struct {
		Type string `json:"type"`
		plan
	}{ID, t.Load()})
	return []plugin.Directive{plugin.Emit(event)}, err
}

// contribute lists the open items.
func (t *todo) contribute(context.Context, plugin.PromptContext) ([]events.Contribution, error) {
	var open strings.Builder
	for _, item := range t.Load().Items {
		if item.Status != completed {
			fmt.Fprintf(&open, "- %s (%s)\n", item.Text, item.Status)
		}
	}
	if open.Len() == 0 {
		return nil, nil
	}
	return []events.Contribution{{Slot: events.SlotRuntimeContext, Title: "Your plan", Content: strings.TrimSpace(open.String())}}, nil
}
