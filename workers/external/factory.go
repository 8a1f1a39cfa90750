package external

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/session/schema"
)

// toolsOf compiles the tools of a manifest.
func (p *Plugins) toolsOf(name string, m *wire.Manifest) (*plugin.Tools, error) {
	set, hash := plugin.NewTools(), m.Hash()
	for i := range m.Tools {
		t := &m.Tools[i]
		effects := p.byName[name].settings.effects(t)
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
		declared.Recorded = func(call plugin.Call) { p.recorded(name, call) }
		declared.Abandoned = func(call plugin.Call) { p.abandoned(name, call) }
		if !effects.Repeatable() {
			declared.Holder = func(session events.SessionID, effect events.EffectID) string {
				if !p.serves(name, hash, set, t.Name) {
					return ""
				}
				return p.pick(name, wire.CallID{Session: session, Call: effect})
			}
		}
		if err := set.Add(declared, p.served(name, hash, set, t.Name, p.handler(name, t.Name, effects.Repeatable(), nil))); err != nil {
			return nil, &events.FieldError{Field: fmt.Sprintf("manifest.tools[%d]", i), Reason: err.Error(), Err: events.ErrInvalid}
		}
	}
	return set, nil
}

// Factories are the plugins for the stacks of sessions, in the order of the configuration.
func (p *Plugins) Factories() []plugin.Factory {
	list := make([]plugin.Factory, len(p.names))
	for i, name := range p.names {
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
	offer, err := f.p.offer(f.name, in.InTurn, from.Manifest)
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
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	return f.p.byName[f.name].row.Hash
}

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
	if at := o.Load(); at.Manifest != o.offer.hash {
		o.Update(func(at *pin) { at.Manifest = o.offer.hash })
	}
}

// Register implements [plugin.Plugin]. It leaves out tools whose names earlier plugins of the stack have: a manifest
// must not keep sessions from running.
func (o *sessionPlugin) Register(r *plugin.Registrar) error {
	if o.p.byName[o.name].settings.BySession {
		r.Source(o.name, func(context.Context) (*plugin.Tools, error) { return o.tools, nil })
	} else if err := r.Tools(o.tools); err != nil {
		o.p.log.Warn("tools are left out", zap.String("plugin", o.name), zap.Error(err))
	}
	o.registerHooks(r)
	o.registerObservers(r)
	return nil
}
