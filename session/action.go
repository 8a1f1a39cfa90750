package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
)

// Actions lists the actions of the session's plugins.
func (h *Host) Actions(ctx context.Context, id events.SessionID) (list []plugin.ActionDef, err error) {
	err = h.withStack(ctx, id, func(p *plugin.Stack, _ *projector.State) error {
		list = p.Actions()
		return nil
	})
	return list, err
}

// InvokeAction runs a plugin's action on a session and records the plugin states that it changed. An action without a
// session does not receive the session's id. The action runs for the request's caller, which needs the right that the
// action names. Where another node changed the same state meanwhile the error is [api.ErrStateMoved]. A request
// whose key is in the history does not run again; its result is not stored, so the error is
// [events.ErrOutcomeUnknown].
func (h *Host) InvokeAction(ctx context.Context, id events.SessionID, name string, args json.RawMessage) (result plugin.Result, err error) {
	ctx, reqMeta := api.TakeRequestMeta(ctx) // an action may make many requests, and none of them has the key
	meta, s, done, err := h.appliedBefore(ctx, id, requestContent{operation.InvokeAction.Name, "invoke action", &api.ActionArgs{Name: name, Args: args}}, reqMeta)
	if err == nil && done {
		err = fmt.Errorf("action %s was done with key %s, and its result is not kept: %w", name, reqMeta.Key, events.ErrOutcomeUnknown)
	}
	if err != nil {
		return result, err
	}
	err = h.withStackOf(ctx, s, func(p *plugin.Stack, s *projector.State) error {
		takesNone, ctx := false, ctx
		for _, a := range p.Actions() {
			if a.Name == name {
				takesNone, ctx = a.Session == plugin.SessionForbidden, api.WithNeeds(ctx, a.Needs)
			}
		}
		if err := api.Authorize(ctx, id, s, nil); err != nil {
			return err
		}
		if result, err = p.InvokeAction(ctx, name, args, "", !takesNone, h.Worker().RuntimeHost(id, nil, "")); err != nil {
			return errors.Join(err, h.saveStates(ctx, id, meta, p, nil))
		}
		return h.saveStates(ctx, id, meta, p, nil)
	})
	return result, err
}

// appliedBefore reports whether the history has a request's commit. Plugins have effects of their own, so this check
// precedes their call.
func (h *Host) appliedBefore(ctx context.Context, id events.SessionID, c requestContent, reqMeta api.RequestMeta) (meta commitMeta, s *projector.State, done bool, err error) {
	if meta, err = h.keyedMeta(ctx, c, reqMeta); err != nil {
		return meta, nil, false, err
	}
	if s, err = h.State(ctx, id); err != nil {
		return meta, nil, false, err
	}
	seq, err := meta.repeatOf(ctx, s)
	return meta, s, seq != 0, err
}

// ExternalPlugins are the plugins that run as programs of their own. Errors: [plugin.ErrUnavailable] of a host without
// plugins.
func (h *Host) ExternalPlugins(ctx context.Context) ([]api.ExternalPlugin, error) {
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case h.plugins == nil:
		return nil, fmt.Errorf("external plugins: %w", plugin.ErrUnavailable)
	}
	return h.plugins.External(), nil
}
