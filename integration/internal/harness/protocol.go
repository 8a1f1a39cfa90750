package harness

import (
	"context"
	"errors"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/standard"
)

// PluginOf is a plugin with the registrations of one function.
func PluginOf(id string, register func(*plugin.Registrar)) plugin.Factory {
	return plugin.New(id, func(plugin.BuildContext) (plugin.Plugin, error) { return Registration(register), nil })
}

// Registration is the function by which a plugin registers.
type Registration func(*plugin.Registrar)

// Register implements [plugin.Plugin].
func (d Registration) Register(r *plugin.Registrar) error {
	d(r)
	return nil
}

// Protocol is the standard protocol with the callbacks that are set.
type Protocol struct {
	plugin.BaseProtocol
	Validate    func(context.Context, events.TurnInput) error
	Before      func(plugin.ModelCallContext) (*events.FrameSwitch, error)
	OnConfigure func(*plugin.ProtocolRuntime, plugin.Materialization)
}

// ProtocolPlugin is a protocol that replaces the standard one.
func ProtocolPlugin(p Protocol) plugin.Factory {
	return PluginOf(standard.ID, func(r *plugin.Registrar) {
		r.Protocol(p)
		r.Driver(p)
	})
}

// Preamble implements [plugin.Protocol].
func (Protocol) Preamble(plugin.PreambleInput) plugin.Preamble { return plugin.Preamble{} }

// ValidateTurn calls the callback.
func (p Protocol) ValidateTurn(ctx context.Context, in events.TurnInput) error {
	if p.Validate == nil {
		return nil
	}
	return p.Validate(ctx, in)
}

// BeforeModelCall calls the callback.
func (p Protocol) BeforeModelCall(_ context.Context, in plugin.ModelCallContext) (*events.FrameSwitch, error) {
	if p.Before == nil {
		return nil, nil //nolint:nilnil // no switch, no error
	}
	return p.Before(in)
}

// Configure calls the callback.
func (p Protocol) Configure(_ context.Context, rt *plugin.ProtocolRuntime, m plugin.Materialization) error {
	if p.OnConfigure != nil {
		p.OnConfigure(rt, m)
	}
	return nil
}

// SeedNode is a first node of a frame.
func SeedNode(id events.NodeID, role events.Role, s string) events.NewNode {
	m := plugin.Say(role, s)
	m.ID = events.MessageID(id)
	return events.NewNode{ID: id, Kind: events.NodeMessage, Message: m}
}

// PathNodes lists the ids of the nodes of the active path.
func (b *System) PathNodes(id events.SessionID) []events.NodeID {
	b.T.Helper()
	path, err := b.StateOf(id).Path()
	runtest.WantError(b.T, "path", err, nil)
	var list []events.NodeID
	for _, n := range path {
		list = append(list, n.ID)
	}
	return list
}

// FrameSwitcher is a plugin whose tool continues in frame "next".
func FrameSwitcher(before func()) plugin.Factory {
	return PluginOf("switcher", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "continue_as"}, func(context.Context, plugin.Call, struct{}) (plugin.Result, error) {
			if before != nil {
				before()
			}
			return plugin.Result{Text: "switched", Control: events.ControlSwitch, Switch: events.FrameSwitch{
				Frame: "next", Task: "the rest", Nodes: []events.NewNode{SeedNode("s1", events.RoleUser, "known"), SeedNode("s2", events.RoleAssistant, "noted")},
			}}, nil
		})
	})
}

// ErrPlugin is the error of plugins that fail.
var ErrPlugin = errors.New("the plugin refuses")
