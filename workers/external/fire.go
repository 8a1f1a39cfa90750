package external

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external/internal/registry"
)

// Fired implements [registry.Node].
func (n node) Fired(sender string, data []byte) []byte {
	answer := wire.Fired{Reached: []string{}}
	var reached []string
	err := n.p.registry.Limits(sender).Request(wire.VerbFire)
	if err == nil {
		reached, err = n.p.fire(sender, data)
	}
	if err != nil {
		answer.Error = n.p.registry.Refusal(sender, err)
	}
	answer.Reached = append(answer.Reached, reached...)
	out, _ := json.Marshal(&answer) // strings only
	return out
}

// fire calls the hooks of all other plugins at once. The sender's own hooks are not called, so that a hook which fires
// its own point does not wait for itself. Reached are the plugins, in stack order, whose hooks returned.
func (p *Plugins) fire(sender string, data []byte) (reached []string, err error) {
	var in wire.Fire
	if err := wire.Decode(data, &in); err != nil {
		return nil, registry.Malformed("request", err)
	}
	if err := in.Validate(); err != nil {
		return nil, err
	}
	done, err := p.startFire(sender)
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(p.ctx, wire.MaxHookTimeout)
	defer cancel()
	call := wire.HookCall{Invocation: newInvocation(), Session: in.Session, FiredBy: sender, Data: in.Data}
	names := p.registry.Names()
	called, failed := make([]bool, len(names)), make([]error, len(names))
	var wait sync.WaitGroup
	for i, name := range names {
		list := p.registry.Hooks(name, in.Point)
		called[i] = name != sender && len(list) > 0
		if called[i] {
			wait.Go(func() { failed[i] = p.callAll(ctx, name, list, call) })
		}
	}
	wait.Wait()
	for i, name := range names {
		switch {
		case !called[i]:
		case failed[i] == nil:
			reached = append(reached, name)
		case err == nil:
			err = &wire.Error{Code: wire.CodeInternal, Message: fmt.Sprintf("plugin %s: %v", name, failed[i])}
		}
	}
	return reached, err
}

func (p *Plugins) callAll(ctx context.Context, name string, list []wire.Hook, in wire.HookCall) error {
	for i := range list {
		if _, err := p.callHook(ctx, name, "", &list[i], in); err != nil {
			return fmt.Errorf("hook %s: %w", list[i].Name, err)
		}
	}
	return nil
}

// startFire counts a request of a plugin. Plugins that fire within each other's hooks end here.
func (p *Plugins) startFire(sender string) (done func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.works[sender]
	switch {
	case p.registry.Hash(sender) == "":
		return nil, &events.FieldError{Field: "op", Reason: "is fire: an instance sends register first", Err: events.ErrInvalid}
	case w.fires >= wire.MaxFires:
		return nil, &wire.Error{Code: wire.CodeBusy, Message: fmt.Sprintf("%d requests of the plugin run on this node: try again later", w.fires)}
	}
	w.fires++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		w.fires--
	}, nil
}
