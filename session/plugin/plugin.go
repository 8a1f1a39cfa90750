package plugin

import (
	"context"

	"github.com/lash-go/lash/events"
)

// Factory builds one plugin for each session.
type Factory interface {
	// ID names the plugin in histories: "plan_mode".
	ID() string
	// Build makes the plugin of one session. It must not block.
	Build(BuildContext) (Plugin, error)
}

// BuildContext is what a factory knows of the session.
type BuildContext struct {
	Session    events.SessionID
	Parent     events.SessionID // empty: a root session
	Config     events.Config
	Options    Options
	Access     events.ToolAccess
	Subagent   events.Subagent
	Extensions Extensions // of every factory of the stack
}

// IsRoot reports whether the session has no parent.
func (c BuildContext) IsRoot() bool { return c.Parent == "" }

// Plugin is a plugin in one session. It may also be a [Versioned], a [Stateful], a [Readier].
//
// Its hooks run on the node that works on the session, which changes: what
// must outlive a call belongs in its state.
type Plugin interface {
	// Register declares what the plugin does. It is called once.
	Register(*Registrar) error
}

// Versioned is a plugin with a version of its state's shape. Others have "1".
type Versioned interface{ Version() string }

// Stateful is a plugin whose state is part of the session's history. [State] implements most of it.
type Stateful interface {
	// Revision counts the changes: it must grow with every one.
	Revision() uint64
	// Snapshot gives the state as JSON; artifacts go to the writer. Neither it nor Restore may ask the host for anything.
	Snapshot(*SnapshotWriter) ([]byte, error)
	// Restore replaces the state. Without one, meta.State is nil: begin anew.
	Restore(meta Meta, artifacts SnapshotReader) error
}

// Readier is told once that the session's stack is complete. What needs the
// stack is [ErrBuilding] until then; tools are answered from the history.
type Readier interface {
	SessionReady(ctx context.Context, s *Session) error
}

// Selective is a factory that has no plugin for some sessions.
type Selective interface{ Wants(BuildContext) bool }

// Extending is a factory that contributes to the stack's extensions.
type Extending interface {
	// Extensions are payloads by extension id.
	Extensions() map[string]any
}

// Extensions are what factories contributed, by extension id, in stack order.
type Extensions map[string][]any

// factory is a [Factory] made of functions.
type factory struct {
	id    string
	build func(BuildContext) (Plugin, error)
}

func (f factory) ID() string                             { return f.id }
func (f factory) Build(ctx BuildContext) (Plugin, error) { return f.build(ctx) }

// New makes a factory of a function.
func New(id string, build func(BuildContext) (Plugin, error)) Factory { return factory{id, build} }

// Func makes a factory of a plugin that is nothing but its registrations.
func Func(id string, register func(*Registrar) error) Factory {
	return factory{id, func(BuildContext) (Plugin, error) { return registration(register), nil }}
}

// OfTool makes a factory of one typed tool, see [AddTool]. Its id is the tool's name.
func OfTool[In, Out any](tool Tool, run func(context.Context, Call, In) (Out, error)) Factory {
	return Func(tool.Name, func(r *Registrar) error {
		AddTool(r, tool, run)
		return nil
	})
}

// OfDriver makes a factory of a protocol that is nothing but its driver, for
// the sessions whose configuration names it.
func OfDriver(id string, d Driver) Factory { return driverFactory{id, d} }

type driverFactory struct {
	id     string
	driver Driver
}

func (f driverFactory) ID() string { return f.id }

// Wants implements [Selective].
func (f driverFactory) Wants(in BuildContext) bool { return in.Config.Protocol == f.id }

func (f driverFactory) Build(BuildContext) (Plugin, error) {
	return registration(func(r *Registrar) error {
		r.Protocol(BaseProtocol{})
		r.Driver(f.driver)
		return nil
	}), nil
}

type registration func(*Registrar) error

func (f registration) Register(r *Registrar) error { return f(r) }

// OfTools makes a factory of tools. The function is asked once a session; nil means none.
func OfTools(id string, tools func(events.SessionID) *Tools) Factory {
	return factory{id, func(ctx BuildContext) (Plugin, error) {
		return registration(func(r *Registrar) error {
			if set := tools(ctx.Session); set != nil {
				return r.Tools(set)
			}
			return nil
		}), nil
	}}
}
