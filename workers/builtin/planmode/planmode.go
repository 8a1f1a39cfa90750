// Package planmode lets a session plan before it acts. While the mode is on, the tools with effects are off, their
// calls are refused, and the prompt tells the model to plan. Callers that may configure switch it with the action
// "plan_mode.set". The model leaves it with the tool exit_plan_mode, after a human has approved its plan.
//
// Guarantees: the mode is part of the history and outlives the node. The model reads of a change exactly once, at the
// next turn or checkpoint, and hosts receive an event.
package planmode

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// ID names the plugin in histories.
const ID = "plan_mode"

const exitTool = "exit_plan_mode"

// Options of the plugin. A session may have its own.
type Options struct {
	Allow []string `json:"allow,omitempty"` // tools that stay on although they have effects
}

// Factory builds the plugin.
func Factory(o Options) plugin.Factory {
	return plugin.WithOptions(ID, o, func(_ plugin.BuildContext, o Options) (plugin.Plugin, error) {
		return &planMode{allow: append([]string{exitTool}, o.Allow...)}, nil
	})
}

// mode is the state of the plugin, the result of its action, and its event.
type mode struct {
	On    bool `json:"on"`
	Known bool `json:"told"` // the mode that the model knows of
}

type planMode struct {
	plugin.State[mode]
	allow []string
}

func (p *planMode) Register(r *plugin.Registrar) error {
	r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) { return p.announce() })
	r.Checkpoint(func(context.Context, plugin.CheckpointContext) ([]plugin.Directive, error) { return p.announce() })
	r.BeforeToolCall(p.guard)
	r.Catalog(p.hide)
	r.Prompt(p.contribute)
	plugin.AddAction(r, plugin.ActionDef{
		Name: "plan_mode.set", Kind: "command", Needs: api.RightConfigure, Description: "Switches plan mode on or off.",
	},
		func(_ context.Context, _ plugin.ActionContext, in struct {
			On bool `json:"on"`
		},
		) (mode, error) {
			return p.set(in.On), nil
		})
	plugin.AddTool(r, plugin.Tool{
		Name: exitTool, Effects: events.EffectsIdempotent,
		Description: "Shows your plan to the user. Once it is approved you may carry it out.",
	}, func(_ context.Context, _ plugin.Call, _ struct {
		Plan string `json:"plan" jsonschema:"what you are going to do, step by step"`
	},
	) (string, error) {
		p.set(false)
		return "The plan is approved. Carry it out.", nil
	})
	return nil
}

func (p *planMode) set(on bool) mode {
	p.Update(func(m *mode) { m.On = on })
	return p.Load()
}

// announce adds a change of the mode to the conversation, once.
func (p *planMode) announce() ([]plugin.Directive, error) {
	now := p.Load()
	if now.On == now.Known {
		return nil, nil
	}
	p.Update(func(m *mode) { m.Known = now.On })
	note := "Plan mode is off. You may change things now."
	if now.On {
		note = "Plan mode is on. Look around, then make a plan; change nothing. When it is ready, call " + exitTool + "."
	}
	event, err := json.Marshal(map[string]any{"type": ID, "on": now.On})
	return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleSystem, note)), plugin.Emit(event)}, err
}

// guard refuses tools with effects, and requires an approval to leave the mode.
func (p *planMode) guard(ctx context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
	if !p.Load().On {
		return nil, nil
	}
	if in.Tool == exitTool {
		return []plugin.Directive{plugin.Ask("Leave plan mode and carry out this plan?")}, nil
	}
	state, err := in.Host.SnapshotCurrent(ctx)
	if err != nil || p.permits(&state.Catalog, in.Tool) {
		return nil, err
	}
	return []plugin.Directive{plugin.Abort(ID, fmt.Sprintf("%s changes things, and plan mode is on: plan first, then call %s", in.Tool, exitTool))}, nil
}

func (p *planMode) permits(c *projector.Catalog, name string) bool {
	tool, known := c.Tool(name)
	return known && tool.Effects == events.EffectsNone || slices.Contains(p.allow, name)
}

// hide removes the refused tools from the catalogue.
func (p *planMode) hide(in plugin.CatalogContext) (plugin.CatalogContribution, error) {
	levels := make(map[string]events.Availability)
	on := p.Load().On
	if !on {
		levels[exitTool] = events.AvailOff
	}
	for _, tool := range in.Tools {
		if on && !p.permits(&projector.Catalog{Tools: in.Tools}, tool.Name) {
			levels[tool.Name] = events.AvailOff
		}
	}
	return plugin.CatalogContribution{Levels: levels}, nil
}

func (p *planMode) contribute(context.Context, plugin.PromptContext) ([]events.Contribution, error) {
	if !p.Load().On {
		return nil, nil
	}
	return []events.Contribution{{Slot: events.SlotGuidance, Title: "Plan mode", Content: "Plan mode is on: read and think, and change nothing."}}, nil
}
