package plugin

import (
	"context"
	"encoding/json"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// Factory builds one plugin for each session. It may also implement [Selective], [Extending], [Revised] and [Reporting].
type Factory interface {
	// ID names the plugin in histories, for example "plan_mode".
	ID() string
	// Build makes the plugin for one session. It must not block.
	Build(BuildContext) (Plugin, error)
}

// BuildContext describes the session that a factory builds a plugin for.
type BuildContext struct {
	Session    events.SessionID
	Parent     events.SessionID // empty for a root session
	Labels     map[string]string
	Config     events.Config
	Options    Options
	Access     events.ToolAccess
	Subagent   events.Subagent
	Extensions Extensions              // by extension id, of all factories of the stack
	Saved      []projector.PluginState // of the history, with their bodies; for plugins that depend on their state
	InTurn     bool                    // a turn runs
}

// State is the saved state of a plugin, JSON; nil without one.
func (c BuildContext) State(id string) json.RawMessage {
	if saved := find(c.Saved, id); saved != nil {
		return saved.State
	}
	return nil
}

// Plugin is one plugin in one session. It may also implement [Versioned], [Stateful], [TurnStarter] and
// [SessionReadyNotifier].
//
// A plugin runs on the node that works on the session, and that node changes. Values that must outlive a hook call
// belong into the plugin's state.
type Plugin interface {
	// Register declares the plugin's tools and hooks. The host calls it once.
	Register(*Registrar) error
}

// Versioned gives the version of the state's format. The default is "1".
type Versioned interface{ Version() string }

// Stateful is a plugin whose state is part of the session's history. [State] implements it for values that JSON can
// carry.
type Stateful interface {
	// Revision counts the changes of the state. It grows with every change.
	Revision() uint64
	// Snapshot returns the state as JSON and writes artifacts to the writer. Snapshot and Restore must not call the
	// host.
	Snapshot(*SnapshotWriter) ([]byte, error)
	// Restore replaces the state. A nil meta.State means that there is no saved state.
	Restore(meta Meta, artifacts SnapshotReader) error
}

// SessionReadyNotifier gets one call after the stack is complete and before the session runs. Capabilities of the host
// that need the complete stack return [ErrBuilding] during this call. The tool catalogue comes from the history.
type SessionReadyNotifier interface {
	SessionReady(ctx context.Context, s *Stack) error
}

// Selective is a factory that builds a plugin for some sessions only.
type Selective interface{ Wants(BuildContext) bool }

// Reporting is a factory of a plugin that runs as programs of its own.
type Reporting interface{ Report() api.ExternalPlugin }

// LeavesOut is a factory that leaves out tools which users may expect.
type LeavesOut interface {
	// LeftOut are the tools that sessions do not have, with the reason. It must not block.
	LeftOut() []api.LeftOutTool
}

// Extending is a factory that contributes payloads to the stack's extensions.
type Extending interface {
	// Extensions returns payloads by extension id.
	Extensions() map[string]any
}

// Extensions are the payloads of all factories by extension id, in stack order.
type Extensions map[string][]any

// factory is a [Factory] made of two values.
type factory struct {
	id    string
	build func(BuildContext) (Plugin, error)
}

func (f factory) ID() string                             { return f.id }
func (f factory) Build(ctx BuildContext) (Plugin, error) { return f.build(ctx) }

// New makes a factory from an id and a build function.
func New(id string, build func(BuildContext) (Plugin, error)) Factory { return factory{id, build} }

// Func makes a factory of a plugin without state or options: it only registers tools and hooks.
func Func(id string, register func(*Registrar) error) Factory {
	return factory{id, func(BuildContext) (Plugin, error) { return registerFunc(register), nil }}
}

// OfTool makes a factory of one typed tool, see [AddTool]. The factory's id is the tool's name.
func OfTool[In, Out any](tool Tool, run func(context.Context, Call, In) (Out, error)) Factory {
	return Func(tool.Name, func(r *Registrar) error {
		AddTool(r, tool, run)
		return nil
	})
}

// OfDriver makes a factory of a protocol that consists of a driver only. It builds a plugin for sessions whose
// configuration names the id as their protocol.
func OfDriver(id string, d Driver) Factory { return driverFactory{id, d} }

type driverFactory struct {
	id     string
	driver Driver
}

func (f driverFactory) ID() string { return f.id }

func (f driverFactory) Wants(in BuildContext) bool { return in.Config.Protocol == f.id }

func (f driverFactory) Build(BuildContext) (Plugin, error) {
	return registerFunc(func(r *Registrar) error {
		r.Protocol(BaseProtocol{})
		r.Driver(f.driver)
		return nil
	}), nil
}

type registerFunc func(*Registrar) error

func (f registerFunc) Register(r *Registrar) error { return f(r) }

// OfTools makes a factory of a set of tools. The function runs once per session; nil means no tools.
func OfTools(id string, tools func(events.SessionID) *Tools) Factory {
	return factory{id, func(ctx BuildContext) (Plugin, error) {
		return registerFunc(func(r *Registrar) error {
			if set := tools(ctx.Session); set != nil {
				return r.Tools(set)
			}
			return nil
		}), nil
	}}
}
