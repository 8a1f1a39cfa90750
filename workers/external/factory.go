package external

import (
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
	set := plugin.NewTools()
	for i := range m.Tools {
		t := &m.Tools[i]
		declared := plugin.Tool{
			Name: t.Name, Description: t.Description, Effects: t.Effects, Serial: t.Serial,
			Timeout: time.Duration(t.TimeoutMS) * time.Millisecond,
		}
		field := fmt.Sprintf("manifest.tools[%d].schema", i)
		if len(t.Schema) > 0 {
			var err error
			if declared.Schema, err = schema.Parse(field, t.Schema); err != nil {
				return nil, err
			}
		}
		declared.Grace = p.grace + time.Second
		declared.Recorded = func(call plugin.Call) { p.recorded(name, call) }
		if !t.Effects.Repeatable() {
			declared.Holder = func(effect events.EffectID) string { return p.pick(name, string(effect)) }
		}
		if err := set.Add(declared, p.handler(name, t.Name, t.Effects.Repeatable())); err != nil {
			return nil, &events.FieldError{Field: fmt.Sprintf("manifest.tools[%d]", i), Reason: err.Error(), Err: events.ErrInvalid}
		}
	}
	return set, nil
}

// Factories are the plugins for the stacks of sessions, in the order of their names.
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

// Build implements [plugin.Factory].
func (f factory) Build(plugin.BuildContext) (plugin.Plugin, error) {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	k := f.p.byName[f.name]
	return offered{f.p, f.name, k.tools, k.manifest}, nil
}

// offered is what a manifest offers in one session.
type offered struct {
	p        *Plugins
	name     string
	tools    *plugin.Tools
	manifest *wire.Manifest
}

// Register implements [plugin.Plugin]. It leaves out tools whose names earlier plugins of the stack have: a manifest
// must not keep sessions from running.
func (o offered) Register(r *plugin.Registrar) error {
	if err := r.Tools(o.tools); err != nil {
		o.p.log.Warn("tools are left out", zap.String("plugin", o.name), zap.Error(err))
	}
	o.registerHooks(r)
	o.registerObservers(r)
	return nil
}

// Revision implements [plugin.Revised].
func (f factory) Revision() uint64 {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	return f.p.byName[f.name].revision
}
