package external

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/wire"
)

// answer handles a request of a plugin.
func (p *Plugins) answer(name, op string, data []byte) []byte {
	if op == wire.VerbFire {
		return p.fired(name, data)
	}
	answer := wire.Registered{SignMS: wire.SignEvery.Milliseconds(), LeaseMS: wire.Lease.Milliseconds()}
	err := p.request(name, op)
	if err == nil {
		answer.Hash, answer.Term, err = p.register(name, op, data)
	}
	if err != nil {
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

// register checks a manifest and stores it.
func (p *Plugins) register(name, op string, data []byte) (hash, term string, err error) {
	if op != wire.VerbRegister {
		return "", "", &wire.Error{Code: wire.CodeBadRequest, Field: "op", Message: fmt.Sprintf("no operation %q: an instance sends register first", op)}
	}
	if len(data) > wire.MaxManifestBytes {
		return "", "", &wire.Error{Code: wire.CodeTooLarge, Field: "manifest", Message: fmt.Sprintf("the registration has %d bytes, limit is %d", len(data), wire.MaxManifestBytes)}
	}
	var in wire.Registration
	if err := wire.Decode(data, &in); err != nil {
		return "", "", malformed("registration", err)
	}
	if in.Protocol != wire.Version {
		return "", "", &wire.Error{Code: wire.CodeUnsupported, Field: "protocol", Message: fmt.Sprintf("is %d, this node speaks %d", in.Protocol, wire.Version)}
	}
	if err := in.Validate(); err != nil {
		return "", "", err
	}
	o, err := p.compile(name, &in.Manifest)
	if err != nil {
		return "", "", err
	}
	if err := errors.Join(p.byName[name].settings.check(&in.Manifest), p.checkOwners(name, &in.Manifest), p.checkNames(name, &in.Manifest), p.checkSum(name, o)); err != nil {
		return "", "", err
	}
	if err := p.checkTerm(name, &in); err != nil {
		return "", "", err
	}
	var has []string
	for i := range in.Manifest.Tools {
		has = append(has, in.Manifest.Tools[i].Name)
	}
	for _, tool := range p.byName[name].settings.unknown(has) {
		p.log.Warn("the operator's effects name a tool that the plugin does not have", zap.String("plugin", name), zap.String("tool", tool))
	}
	if hash, err = p.store(name, &in, o); err != nil {
		return "", "", err
	}
	return hash, cmp.Or(in.Term, ulid.Make().String()), nil
}

// malformed refuses a message that is no JSON of its form. The field is the one that has another type, or the body.
func malformed(message string, err error) *wire.Error {
	field := "body"
	if deep, ok := errors.AsType[*events.FieldError](err); ok {
		return &wire.Error{Code: wire.CodeTooLarge, Field: deep.Field, Message: deep.Error()}
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		field = wrong.Field
	}
	return &wire.Error{Code: wire.CodeBadRequest, Field: field, Message: fmt.Sprintf("the %s is no JSON of its form: %v", message, err)}
}

// maxManifests limits the JSON of the current manifests of all plugins. The tools that a session offers are one event of
// at most 256 KiB, with those of the node.
const maxManifests = 160 << 10

// checkSum refuses a manifest with which those of all plugins would be too large for sessions to record their tools.
func (p *Plugins) checkSum(name string, o *offer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := o.bytes
	for _, other := range p.names {
		if other != name {
			sum += p.byName[other].current.bytes
		}
	}
	if sum > maxManifests {
		return &wire.Error{Code: wire.CodeTooLarge, Field: "manifest", Message: fmt.Sprintf("the manifests of all plugins would have %d bytes, limit is %d: shorten descriptions and schemas", sum, maxManifests)}
	}
	return nil
}

// checkNames refuses tools that another external plugin has.
func (p *Plugins) checkNames(name string, m *wire.Manifest) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, other := range p.names {
		for i := range m.Tools {
			if _, taken := p.byName[other].current.tools.Find(m.Tools[i].Name); taken && other != name {
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
func (p *Plugins) store(name string, in *wire.Registration, o *offer) (hash string, err error) {
	ctx, cancel := context.WithTimeout(p.ctx, storeWait)
	defer cancel()
	fresh := false
	r, revision, err := p.change(ctx, name, func(now *row) (*row, error) {
		next, err := now.next(&in.Manifest, in.Rollback)
		fresh = next != now
		switch {
		case err != nil || !fresh:
			return next, err
		case now.Hash == "":
			next.Life = ulid.Make().String()
			return next, nil
		}
		return next, p.keepRow(ctx, name, now)
	})
	if err != nil {
		return "", err
	}
	p.take(name, r, o, revision)
	if fresh {
		p.log.Info("plugin registered", zap.String("plugin", name), zap.String("version", in.Manifest.Version), zap.Bool("rollback", in.Rollback))
	}
	return r.Hash, nil
}
