package session

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/check"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
)

// Causes of the commits that decisions append.
const (
	configuring  = "configure"
	openingFrame = "open frame"
)

// Configure replaces the configuration with the one that the plugins' mutators return, and notifies the plugins.
// Without a change it appends nothing and notifies no plugin. Where the configuration changed meanwhile it calls the
// mutators again.
func (h *Host) Configure(ctx context.Context, id events.SessionID, req api.ConfigureRequest) error {
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	reqMeta.Key = cmp.Or(req.IdempotencyKey, reqMeta.Key)
	var change plugin.ConfigChange
	for moved := true; moved; {
		s, err := h.State(ctx, id)
		if err != nil {
			return err
		}
		// The repeat is found first: the configuration may already contain this change and later ones.
		if done, err := h.configured(ctx, s, reqMeta, req); err != nil || done {
			return err
		}
		if change, err = h.mutated(ctx, s, req); err == nil {
			moved, err = h.configure(ctx, reqMeta, change, h.wanted(s, req))
		}
		if err != nil {
			return err
		}
	}
	if h.plugins == nil || change.Current.Equal(change.Previous) {
		return nil
	}
	return h.withStack(ctx, id, func(p *plugin.Session, s *projector.State) error {
		p.NotifyLifecycle(ctx, plugin.Lifecycle{Kind: plugin.SessionConfigChanged, Session: id, State: h.stacks.Filled(ctx, s), Change: change, Host: h.Services(id, nil, "")})
		return nil
	})
}

// wanted is the configuration that a request produces, before the mutators.
func (h *Host) wanted(s *projector.State, req api.ConfigureRequest) requestContent {
	return requestContent{operation.Configure.Name, configuring, new(req.Change(s.Config))}
}

// configured reports whether the request made its change before. The request is a function, so the comparison uses
// its output for the configuration of that time.
func (h *Host) configured(ctx context.Context, s *projector.State, reqMeta api.RequestMeta, req api.ConfigureRequest) (bool, error) {
	if reqMeta.Key == "" {
		return false, nil
	}
	first, ok, err := s.FindConfiguration(reqMeta.Key)
	if err != nil || !ok {
		return false, err
	}
	before, err := follow.At(ctx, h.log, h.b, s.Session, first.Seq-1)
	if err != nil {
		return false, err
	}
	meta, err := h.keyedMeta(h.wanted(before, req), reqMeta)
	if err == nil {
		_, err = meta.repeatOf(ctx, s)
	}
	return true, err
}

// mutated is the change after the mutators. They are not called for a request that changes nothing.
func (h *Host) mutated(ctx context.Context, s *projector.State, req api.ConfigureRequest) (plugin.ConfigChange, error) {
	change := plugin.ConfigChange{Session: s.Session, Previous: s.Config, Current: s.Config}
	if err := check.Open(s); err != nil {
		return change, err
	}
	change.Current = req.Change(s.Config)
	if change.Current.Equal(s.Config) {
		return change, nil
	}
	asks, err := h.checkPlugins()
	if err == nil && (change.Current.Model != s.Config.Model || change.Current.Provider != s.Config.Provider) {
		err = h.checkModel(ctx, change.Current)
	}
	if err == nil && !asks {
		change.Current, err = h.locks.Config(change.Current)
	}
	if err != nil || !asks {
		return change, err
	}
	if change.Current.Protocol != s.Config.Protocol {
		next := h.stacks.BuildContext(s)
		next.Config = change.Current
		if err := h.plugins.CheckConfig(next); err != nil {
			return change, err
		}
	}
	p, _, release, err := h.Stack(ctx, s)
	switch {
	case errors.Is(err, plugin.ErrUnavailable) && change.Current.Protocol != s.Config.Protocol: // a protocol that no plugin implements can still be replaced
	case err != nil:
		return change, err
	default:
		defer release()
		change.Current = p.MutateConfig(ctx, change)
	}
	change.Current, err = h.locks.Config(change.Current)
	return change, err
}

// checkModel refuses a configuration whose model the node knows not to exist.
func (h *Host) checkModel(ctx context.Context, c events.Config) error {
	if h.modelCheck == nil || c.Model == "" {
		return nil
	}
	return h.modelCheck(ctx, c)
}

// Locked applies the operator's locks to a configuration, for turns of sessions that are older than the locks.
// Archivers apply the locks of the retention settings.
func (h *Host) Locked(c events.Config) (events.Config, error) {
	retain := c.RetainMillis
	c.RetainMillis = 0
	c, err := h.locks.Config(c)
	c.RetainMillis = retain
	return c, err
}

// configure records a change. It reports moved where the configuration is no longer the one that the change was made
// from.
func (h *Host) configure(ctx context.Context, reqMeta api.RequestMeta, change plugin.ConfigChange, wanted requestContent) (moved bool, err error) {
	if change.Current.Equal(change.Previous) {
		return false, nil
	}
	err = h.decideRequest(ctx, change.Session, wanted, reqMeta, func(s *projector.State) ([]events.Event, error) {
		if moved = !s.Config.Equal(change.Previous); moved {
			return nil, nil
		}
		return []events.Event{events.Of("", &events.SessionConfigured{Config: change.Current})}, check.Open(s)
	})
	return moved && err == nil, err
}

// withStack calls work with a session's plugins at the current state.
func (h *Host) withStack(ctx context.Context, id events.SessionID, work func(*plugin.Session, *projector.State) error) error {
	s, err := h.State(ctx, id)
	if err != nil {
		return err
	}
	return h.withStackOf(ctx, s, work)
}

// withStackOf is withStack on a state that the caller has just read.
func (h *Host) withStackOf(ctx context.Context, s *projector.State, work func(*plugin.Session, *projector.State) error) error {
	p, beside, release, err := h.Stack(ctx, s)
	if err != nil {
		return err
	}
	defer release()
	if !api.ReadsOnly(ctx) { // else the next caller with the right records it
		if err := h.record(ctx, s.Session, "materialise", beside); err != nil {
			return err
		}
	}
	return work(p, s)
}

// record appends events that need no decision.
func (h *Host) record(ctx context.Context, id events.SessionID, cause string, list []events.Payload) error {
	if len(list) == 0 {
		return nil
	}
	return h.decide(ctx, id, cause, func(*projector.State) ([]events.Event, error) {
		out := make([]events.Event, len(list))
		for i, p := range list {
			out[i] = events.Of("", p)
		}
		return out, nil
	})
}

// appliedBefore reports whether the history has a request's commit. Plugins have effects of their own, so this check
// precedes their call.
func (h *Host) appliedBefore(ctx context.Context, id events.SessionID, c requestContent, reqMeta api.RequestMeta) (meta commitMeta, s *projector.State, done bool, err error) {
	if meta, err = h.keyedMeta(c, reqMeta); err != nil {
		return meta, nil, false, err
	}
	if s, err = h.State(ctx, id); err != nil {
		return meta, nil, false, err
	}
	seq, err := meta.repeatOf(ctx, s)
	return meta, s, seq != 0, err
}

// Actions lists the actions of the session's plugins.
func (h *Host) Actions(ctx context.Context, id events.SessionID) (list []plugin.ActionDef, err error) {
	err = h.withStack(ctx, id, func(p *plugin.Session, _ *projector.State) error {
		list = p.Actions()
		return nil
	})
	return list, err
}

// InvokeAction runs a plugin's action on a session and records the plugin states that it changed. An action without a
// session does not receive the session's id. The action runs for the request's caller, which needs the right that the
// action names. Where another node changed the same state meanwhile the error is [plugin.ErrStateMoved]. A request
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
	err = h.withStackOf(ctx, s, func(p *plugin.Session, s *projector.State) error {
		takesNone, ctx := false, ctx
		for _, a := range p.Actions() {
			if a.Name == name {
				takesNone, ctx = a.Session == plugin.SessionForbidden, api.WithNeeds(ctx, a.Needs)
			}
		}
		if err := api.Authorize(ctx, id, s, nil); err != nil {
			return err
		}
		if result, err = p.InvokeAction(ctx, name, args, "", !takesNone, h.Services(id, nil, "")); err != nil {
			return errors.Join(err, h.saveStates(ctx, id, meta, p, nil))
		}
		return h.saveStates(ctx, id, meta, p, nil)
	})
	return result, err
}

// saveStates records the plugin states that changed outside of a turn, and the events of with, which may be nil.
// Where a copy of the request did so meanwhile, saveStates drops these changes.
func (h *Host) saveStates(ctx context.Context, id events.SessionID, meta commitMeta, p *plugin.Session, with decision) error {
	list, err := p.Unsaved()
	if err != nil || len(list) == 0 && with == nil {
		return err
	}
	moved, recorded := false, false
	o := decideOptions{meta: meta, then: func(_ *projector.State, appended bool) error {
		recorded = appended
		return nil
	}}
	err = h.decideWith(ctx, id, o, func(s *projector.State) ([]events.Event, error) {
		var out []events.Event
		moved = false
		for _, fact := range list {
			saved := fact.(*events.PluginStateSaved)
			now := uint64(0)
			if old := s.Plugin(saved.Plugin); old != nil {
				now = old.Revision
			}
			moved = moved || now != saved.Base
			out = append(out, events.Of("", saved))
		}
		if moved {
			return nil, nil
		}
		if with == nil {
			return out, nil
		}
		beside, err := with(s)
		return append(out, beside...), err
	})
	if err == nil && recorded {
		p.Committed(list)
		return nil
	}
	p.Discarded(list)
	if moved {
		err = fmt.Errorf("session %s: %w", id, plugin.ErrStateMoved)
	}
	now, loadErr := h.State(ctx, id)
	if loadErr == nil {
		loadErr = h.FollowStack(ctx, now, p)
	}
	return errors.Join(err, loadErr)
}

// Compact calls the session's compactors for a summary and opens a frame with it. opened is false where no compactor
// returned one.
func (h *Host) Compact(ctx context.Context, id events.SessionID) (opened bool, err error) {
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	// The repeat is found first: a summary costs a model call.
	compact := requestContent{operation.Compact.Name, openingFrame, &struct{}{}}
	meta, err := h.keyedMeta(compact, reqMeta)
	if err != nil {
		return false, err
	}
	s, err := h.State(ctx, id)
	if err != nil {
		return false, err
	}
	if seq, err := meta.repeatOf(ctx, s); err != nil || seq != 0 {
		return err == nil, err
	}
	err = h.withStack(ctx, id, func(p *plugin.Session, s *projector.State) error {
		if err := blob.FillState(ctx, h.b, s); err != nil {
			return err
		}
		got, err := p.Compact(ctx, plugin.TransformContext{
			Session: id, State: s, LastPrompt: s.Prompted, Host: h.Services(id, nil, ""),
		})
		if err != nil || len(got.Value.Nodes) == 0 {
			return err
		}
		for i := range got.Value.Nodes {
			if m := got.Value.Nodes[i].Message; m != nil && m.Origin == "" {
				m.Origin = got.Plugin
			}
		}
		return h.decideRequest(ctx, id, compact, reqMeta, openFrame(&api.FrameRequest{
			Frame:  events.FrameID(string(id) + ":frame:compaction:" + ulid.Make().String()),
			Reason: api.CompactionFrame, Nodes: got.Value.Nodes, Keep: got.Value.Keep,
		}, &opened))
	})
	return opened && err == nil, err
}

// SetProtocolOptions sets the protocol's durable turn options, of the current frame or of all frames. A new frame
// copies the options of the frame before. Equal options change nothing.
func (h *Host) SetProtocolOptions(ctx context.Context, id events.SessionID, options json.RawMessage, allFrames bool) error {
	if len(options) == 0 {
		return &events.FieldError{Field: "options", Reason: "is empty", Err: events.ErrInvalid}
	}
	if err := check.JSON("options", options); err != nil {
		return err
	}
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	set := requestContent{operation.ProtocolOptions.Name, "protocol options", &api.ProtocolOptionsArgs{Options: options, All: allFrames}}
	return h.decideRequest(ctx, id, set, reqMeta, func(s *projector.State) ([]events.Event, error) {
		if err := check.Open(s); err != nil {
			return nil, err
		}
		frames := s.Frames
		if !allFrames {
			frames = frames[max(len(frames)-1, 0):]
		}
		if !slices.ContainsFunc(frames, func(f projector.Frame) bool { return !bytes.Equal(f.Options, options) }) {
			return nil, nil
		}
		return []events.Event{events.Of("", &events.FrameConfigured{Options: options, All: allFrames})}, nil
	})
}
