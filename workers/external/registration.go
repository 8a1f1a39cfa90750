package external

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

// answer handles a request of a plugin.
func (p *Plugins) answer(name, op string, data []byte) []byte {
	if op == "fire" {
		return p.fired(name, data)
	}
	answer := wire.Registered{SignMS: wire.SignEvery.Milliseconds(), LeaseMS: wire.Lease.Milliseconds()}
	hash, err := p.register(name, op, data)
	if err == nil {
		answer.Hash = hash
	} else {
		answer.Error = p.refusal(name, err)
	}
	out, _ := json.Marshal(&answer) // strings only
	return out
}

// refusal is an error as the answer to a request of a plugin.
func (p *Plugins) refusal(name string, err error) *wire.Error {
	if refused, ok := errors.AsType[*wire.Error](err); ok {
		return refused
	}
	if field, ok := errors.AsType[*events.FieldError](err); ok {
		return &wire.Error{Code: wire.CodeBadRequest, Field: field.Field, Message: err.Error()}
	}
	p.log.Warn("a request failed", zap.String("plugin", name), zap.Error(err))
	return &wire.Error{Code: wire.CodeInternal, Message: "the node could not do it: try again"}
}

// registerTries is how often a registration is repeated that another one overtook.
const registerTries = 5

// register checks a manifest and stores it.
func (p *Plugins) register(name, op string, data []byte) (hash string, err error) {
	if op != "register" {
		return "", &wire.Error{Code: wire.CodeBadRequest, Field: "op", Message: fmt.Sprintf("no operation %q: an instance sends register first", op)}
	}
	var in wire.Registration
	if err := json.Unmarshal(data, &in); err != nil {
		return "", &wire.Error{Code: wire.CodeBadRequest, Message: "the registration is no JSON of its form: " + err.Error()}
	}
	if in.Protocol != wire.Version {
		return "", &wire.Error{Code: wire.CodeUnsupported, Field: "protocol", Message: fmt.Sprintf("is %d, this node speaks %d", in.Protocol, wire.Version)}
	}
	if err := in.Validate(); err != nil {
		return "", err
	}
	if !slices.Contains(p.names, name) {
		return "", &wire.Error{Code: wire.CodeBadRequest, Field: "plugin", Message: fmt.Sprintf("no node has the plugin %q: the operator names it", name)}
	}
	tools, err := p.toolsOf(name, &in.Manifest)
	if err != nil {
		return "", err
	}
	if err := p.checkNames(name, &in.Manifest); err != nil {
		return "", err
	}
	for range registerTries {
		if hash, err = p.store(name, &in.Manifest, tools); !errors.Is(err, bus.ErrStale) {
			return hash, err
		}
	}
	return "", err
}

// checkNames refuses tools that another external plugin has.
func (p *Plugins) checkNames(name string, m *wire.Manifest) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, other := range p.names {
		for i := range m.Tools {
			if _, taken := p.byName[other].tools.Find(m.Tools[i].Name); taken && other != name {
				return &wire.Error{
					Code: wire.CodeConflict, Field: fmt.Sprintf("manifest.tools[%d].name", i),
					Message: fmt.Sprintf("tool %q of plugin %s is a tool of plugin %s already: give it another name", m.Tools[i].Name, name, other),
				}
			}
		}
	}
	return nil
}

// store puts the manifest's row, unless it has the manifest already.
func (p *Plugins) store(name string, m *wire.Manifest, tools *plugin.Tools) (hash string, err error) {
	stored, err := p.bus.Manifests().Get(p.ctx, events.SessionID(name))
	if err != nil {
		return "", err
	}
	r, old := row{Hash: m.Hash(), Manifest: *m}, row{}
	if stored.Revision > 0 {
		if err := json.Unmarshal(stored.Value, &old); err != nil {
			return "", err
		}
	}
	switch {
	case old.Hash == r.Hash:
		p.take(name, &r, tools, stored.Revision)
		return r.Hash, nil
	case old.Manifest.Version == m.Version:
		return "", &wire.Error{Code: wire.CodeConflict, Field: "manifest", Message: fmt.Sprintf("version %q is registered with other tools: give the plugin a new version", m.Version)}
	}
	value, err := json.Marshal(&r)
	if err != nil {
		return "", err
	}
	revision, err := p.bus.Manifests().Put(p.ctx, events.SessionID(name), value, stored.Revision)
	if err != nil {
		return "", err
	}
	p.take(name, &r, tools, revision)
	p.log.Info("plugin registered", zap.String("plugin", name), zap.String("version", m.Version))
	return r.Hash, nil
}
