package registry

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

// Answer handles a request of a plugin.
func (r *Registry) Answer(name, op string, data []byte) []byte {
	if op == wire.VerbFire {
		return r.node.Fired(name, data)
	}
	answer := wire.Registered{SignMS: wire.SignEvery.Milliseconds(), LeaseMS: wire.Lease.Milliseconds()}
	err := r.Limits(name).Request(op)
	if err == nil {
		answer.Hash, answer.Term, err = r.Register(name, op, data)
	}
	if err != nil {
		answer.Error = r.Refusal(name, err)
	}
	out, _ := json.Marshal(&answer) // strings only
	return out
}

// Refusal is an error as the answer to a request of a plugin.
func (r *Registry) Refusal(name string, err error) *wire.Error {
	if refused, ok := errors.AsType[*wire.Error](err); ok {
		return refused
	}
	if field, ok := errors.AsType[*events.FieldError](err); ok {
		return &wire.Error{Code: wire.CodeBadRequest, Field: field.Field, Message: err.Error()}
	}
	r.log.Warn("a request failed", zap.String("plugin", name), zap.Error(err))
	return &wire.Error{Code: wire.CodeInternal, Message: "the node could not do it: try again"}
}

// Register checks a manifest and stores it.
func (r *Registry) Register(name, op string, data []byte) (hash, term string, err error) {
	if op != wire.VerbRegister {
		return "", "", &wire.Error{Code: wire.CodeBadRequest, Field: "op", Message: fmt.Sprintf("no operation %q: an instance sends register first", op)}
	}
	in, o, err := r.checked(name, data)
	if err != nil {
		return "", "", err
	}
	var has []string
	for i := range in.Manifest.Tools {
		has = append(has, in.Manifest.Tools[i].Name)
	}
	for _, tool := range r.byName[name].settings.Unknown(has) {
		r.log.Warn("the operator's effects name a tool that the plugin does not have", zap.String("plugin", name), zap.String("tool", tool))
	}
	if hash, err = r.store(name, in, o); err != nil {
		return "", "", err
	}
	return hash, cmp.Or(in.Term, ulid.Make().String()), nil
}

// checked is a registration that this node accepts, with its compiled manifest.
func (r *Registry) checked(name string, data []byte) (*wire.Registration, *Offer, error) {
	if len(data) > wire.MaxManifestBytes {
		return nil, nil, &wire.Error{Code: wire.CodeTooLarge, Field: "manifest", Message: fmt.Sprintf("the registration has %d bytes, limit is %d", len(data), wire.MaxManifestBytes)}
	}
	var in wire.Registration
	if err := wire.Decode(data, &in); err != nil {
		return nil, nil, Malformed("registration", err)
	}
	if in.Protocol != wire.Version {
		return nil, nil, &wire.Error{Code: wire.CodeUnsupported, Field: "protocol", Message: fmt.Sprintf("is %d, this node speaks %d", in.Protocol, wire.Version)}
	}
	if err := in.Validate(); err != nil {
		return nil, nil, err
	}
	o, err := r.compile(name, &in.Manifest)
	if err != nil {
		return nil, nil, err
	}
	err = errors.Join(r.byName[name].settings.Check(&in.Manifest), r.checkOwners(name, &in.Manifest), r.checkNames(name, &in.Manifest), r.checkSum(name, o))
	if err == nil {
		err = r.checkTerm(name, in.Instance, in.Term)
	}
	return &in, o, err
}

// Malformed refuses a message that is no JSON of its form. The field is the one that has another type, or the body.
func Malformed(message string, err error) *wire.Error {
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
func (r *Registry) checkSum(name string, o *Offer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := o.bytes
	for _, other := range r.names {
		if other != name {
			sum += r.byName[other].current.bytes
		}
	}
	if sum > maxManifests {
		return &wire.Error{Code: wire.CodeTooLarge, Field: "manifest", Message: fmt.Sprintf("the manifests of all plugins would have %d bytes, limit is %d: shorten descriptions and schemas", sum, maxManifests)}
	}
	return nil
}

// checkNames refuses tools that another external plugin has.
func (r *Registry) checkNames(name string, m *wire.Manifest) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, other := range r.names {
		for i := range m.Tools {
			if _, taken := r.byName[other].current.Tools.Find(m.Tools[i].Name); taken && other != name {
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
func (r *Registry) store(name string, in *wire.Registration, o *Offer) (hash string, err error) {
	ctx, cancel := context.WithTimeout(r.ctx, storeWait)
	defer cancel()
	fresh := false
	now, revision, err := r.change(ctx, name, func(now *row) (*row, error) {
		next, err := now.next(&in.Manifest, in.Rollback)
		fresh = next != now
		switch {
		case err != nil || !fresh:
			return next, err
		case now.Hash == "":
			next.Table = ulid.Make().String()
			return next, nil
		}
		return next, r.keepRow(ctx, name, now)
	})
	if err != nil {
		return "", err
	}
	r.take(name, now, o, revision)
	if fresh {
		r.log.Info("plugin registered", zap.String("plugin", name), zap.String("version", in.Manifest.Version), zap.Bool("rollback", in.Rollback))
	}
	return now.Hash, nil
}
