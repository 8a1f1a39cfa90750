package external

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/session/schema"
)

// Compile implements [registry.Node].
func (n node) Compile(name string, m *wire.Manifest) (*plugin.Tools, error) {
	p, set, hash := n.p, plugin.NewTools(), m.Hash()
	for i := range m.Tools {
		t := &m.Tools[i]
		effects := p.registry.Settings(name).EffectsOf(t)
		declared := plugin.Tool{
			Name: t.Name, Description: t.Description, Effects: effects, Serial: t.Serial, Source: name,
			Timeout: time.Duration(t.TimeoutMS) * time.Millisecond,
		}
		field := fmt.Sprintf("manifest.tools[%d].schema", i)
		if len(t.Schema) > 0 {
			var err error
			if declared.Schema, err = schema.Parse(field, t.Schema); err != nil {
				return nil, err
			}
			if _, err := schema.Object(field, declared.Schema); err != nil {
				return nil, err
			}
		}
		declared.Grace = p.grace + time.Second
		declared.Recorded = func(call plugin.Call) { p.tellRecorded(name, call) }
		declared.Abandoned = func(call plugin.Call) { p.cancelAbandoned(name, call) }
		if !effects.Repeatable() {
			declared.Holder = func(session events.SessionID, effect events.EffectID) (id, term string) {
				if !p.registry.Serves(name, hash, set, t.Name) {
					return "", ""
				}
				return p.withTerm(name, p.registry.Pick(name, wire.CallID{Session: session, Call: effect}))
			}
		}
		if err := set.Add(declared, p.served(name, hash, set, t.Name, p.handler(name, t.Name, effects.Repeatable(), nil))); err != nil {
			return nil, &events.FieldError{Field: fmt.Sprintf("manifest.tools[%d]", i), Reason: err.Error(), Err: events.ErrInvalid}
		}
	}
	return set, nil
}

// withTerm is an instance with the term of the program that has its id now.
func (p *Plugins) withTerm(name, instance string) (id, term string) {
	term, _ = p.registry.Term(name, instance)
	return instance, term
}

// Factories are the plugins for the stacks of sessions, in the order of the configuration.
func (p *Plugins) Factories() []plugin.Factory {
	names := p.registry.Names()
	list := make([]plugin.Factory, len(names))
	for i, name := range names {
		list[i] = factory{p, name}
	}
	return list
}

// factory is one external plugin.
type factory struct {
	p    *Plugins
	name string
}

func (f factory) ID() string { return f.name }

// Build implements [plugin.Factory]. While a turn runs the plugin has the manifest that the turn began with.
func (f factory) Build(in plugin.BuildContext) (plugin.Plugin, error) {
	from := f.pinned(in)
	offer, err := f.p.registry.Offer(f.name, in.InTurn, from.Manifest)
	if err != nil {
		return nil, err
	}
	return f.p.newSessionPlugin(f.name, &in, offer), nil
}

// pinned is the plugin's state in a session.
func (f factory) pinned(in plugin.BuildContext) (at pin) {
	_ = json.Unmarshal(in.State(f.name), &at) // without a state, none
	return at
}

// Revision implements [plugin.Revised].
func (f factory) Revision(in plugin.BuildContext) string {
	if in.InTurn {
		return f.pinned(in).Manifest
	}
	return f.p.registry.Hash(f.name)
}

// Report implements [plugin.Reporting].
func (f factory) Report() api.ExternalPlugin { return f.p.registry.StatusOf(f.name) }

// pin is what the history has of a plugin in a session: the manifest of the turn.
type pin struct {
	Manifest string `json:"manifest,omitempty"` // hash; empty: none was registered
	placement
}

// TurnStarts implements [plugin.TurnStarter].
func (o *sessionPlugin) TurnStarts() {
	if o.placed() {
		o.restart()
		o.place()
	}
	if at := o.Load(); at.Manifest != o.offer.Hash {
		o.Update(func(at *pin) { at.Manifest = o.offer.Hash })
	}
}

// Register implements [plugin.Plugin]. It leaves out tools whose names earlier plugins of the stack have: a manifest
// must not keep sessions from running.
func (o *sessionPlugin) Register(r *plugin.Registrar) error {
	if o.p.registry.Settings(o.name).BySession {
		r.Source(o.name, func(context.Context) (*plugin.Tools, error) { return o.tools, nil })
	} else if err := r.Tools(o.tools); err != nil {
		o.p.log.Warn("tools are left out", zap.String("plugin", o.name), zap.Error(err))
	}
	o.registerHooks(r)
	o.registerObservers(r)
	return nil
}

// served refuses a call of an earlier manifest whose tool the current one declares otherwise. A call that an instance
// has is not new.
func (p *Plugins) served(name, hash string, from *plugin.Tools, tool string, run plugin.Handler) plugin.Handler {
	return func(ctx context.Context, call plugin.Call, args json.RawMessage) (plugin.Result, error) {
		if call.Holder == "" && !p.registry.Serves(name, hash, from, tool) {
			return plugin.Result{}, &plugin.Failure{
				Class: plugin.ClassUnavailable, Code: plugin.CodeUnavailable,
				Message: fmt.Sprintf("a new version of plugin %s has another tool %q: the call did not start", name, tool),
			}
		}
		return run(ctx, call, args)
	}
}
