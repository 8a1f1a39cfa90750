package session

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/check"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
)

// Configure replaces the configuration with the one that the plugins' mutators return. A worker notifies the plugins, see
// [plugin.SessionConfigChanged]. Without a change it appends nothing, and no plugin is notified. Where the configuration changed meanwhile it calls the
// mutators again.
func (h *Host) Configure(ctx context.Context, id events.SessionID, req api.ConfigureRequest) error {
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	reqMeta.Key = cmp.Or(req.IdempotencyKey, reqMeta.Key)
	var change plugin.ConfigChange
	var announced bool
	var wanted requestContent
	return decideWithPlugins(func() (done bool, err error) {
		change = plugin.ConfigChange{}
		s, err := h.State(ctx, id)
		if err != nil {
			return false, err
		}
		// The repeat is found first: the configuration may already contain this change and later ones.
		if done, err = h.configured(ctx, s, reqMeta, req); done || err != nil {
			return done, err
		}
		wanted = h.wanted(s, req)
		change, announced, err = h.mutated(ctx, s, req)
		return false, err
	}, func() (stale bool, err error) { return h.configure(ctx, reqMeta, change, announced, wanted) })
}

// wanted is the configuration that a request produces, before the mutators.
func (h *Host) wanted(s *projector.State, req api.ConfigureRequest) requestContent {
	return requestContent{operation.Configure.Name, "configure", new(req.Change(s.Config))}
}

// configured reports whether the request made its change before. A request changes whatever configuration it finds. So
// the comparison applies it to the configuration that its first copy found.
func (h *Host) configured(ctx context.Context, s *projector.State, reqMeta api.RequestMeta, req api.ConfigureRequest) (bool, error) {
	if reqMeta.Key == "" {
		return false, nil
	}
	first, ok, err := s.FindRequest(reqMeta.Key)
	if err != nil || !ok {
		return false, err
	}
	before, err := follow.ReadAt(ctx, h.log, h.b, s.Session, first.Seq-1)
	if err != nil {
		return false, err
	}
	meta, err := h.keyedMeta(ctx, h.wanted(before, req), reqMeta)
	if err == nil {
		_, err = meta.repeatOf(ctx, s)
	}
	return true, err
}

// mutated is the change after the mutators, and whether plugins must be notified of it. They are not called for a request that changes
// nothing.
func (h *Host) mutated(ctx context.Context, s *projector.State, req api.ConfigureRequest) (change plugin.ConfigChange, announced bool, err error) {
	change = plugin.ConfigChange{Session: s.Session, Previous: s.Config, Current: s.Config}
	if err := check.Open(s); err != nil {
		return change, false, err
	}
	change.Current = req.Change(s.Config)
	if change.Current.Equal(s.Config) {
		return change, false, nil
	}
	mustCall, err := h.checkPlugins()
	if err == nil && (change.Current.Model != s.Config.Model || change.Current.Provider != s.Config.Provider) {
		err = h.checkModel(ctx, change.Current)
	}
	if err == nil && !mustCall {
		change.Current, err = h.allowed(change.Current, s.Config)
	}
	if err != nil || !mustCall {
		return change, false, err
	}
	if change.Current.Protocol != s.Config.Protocol {
		next := h.stacks.BuildContext(s)
		next.Config = change.Current
		if err := h.plugins.CheckConfig(next); err != nil {
			return change, false, err
		}
	}
	p, _, release, err := h.stacks.Open(ctx, s)
	switch {
	case errors.Is(err, plugin.ErrUnavailable) && change.Current.Protocol != s.Config.Protocol: // a protocol that no plugin implements can still be replaced
		announced = true
	case err != nil:
		return change, false, err
	default:
		defer release()
		change.Current, announced = p.MutateConfig(ctx, change), p.HasLifecycle()
	}
	change.Current, err = h.allowed(change.Current, s.Config)
	return change, announced, err
}

// checkModel refuses a configuration whose model the node knows not to exist.
func (h *Host) checkModel(ctx context.Context, c events.Config) error {
	if h.cfg.CheckModel == nil || c.Model == "" {
		return nil
	}
	return h.cfg.CheckModel(ctx, c)
}

// allowed applies the operator's locks to a configuration. It refuses an environment that this host knows not to exist, unless the session
// has it already.
func (h *Host) allowed(c, before events.Config) (events.Config, error) {
	c, err := h.cfg.Locks.Config(c)
	if err == nil && c.Environment != before.Environment {
		err = h.checkEnvironment("config.environment", c.Environment)
	}
	return c, err
}

// checkEnvironment refuses the name of an environment that this host knows not to exist.
func (h *Host) checkEnvironment(field, name string) error {
	if name == "" || h.cfg.Environments == nil || slices.Contains(h.cfg.Environments, name) {
		return nil
	}
	return &events.FieldError{Field: field, Reason: fmt.Sprintf("is %q, want one of %q", name, h.cfg.Environments), Err: events.ErrInvalid}
}

// Locked applies the operator's locks to a configuration, for turns of sessions that are older than the locks.
// Archivers apply the locks of the retention settings.
func (w Worker) Locked(c events.Config) (events.Config, error) {
	retain := c.RetainMillis
	c.RetainMillis = 0
	c, err := w.Host.cfg.Locks.Config(c)
	c.RetainMillis = retain
	return c, err
}

// OpenOptions are a turn's options for plugins without those that the operator locked, for turns that are older than
// the locks.
func (w Worker) OpenOptions(options map[string]string) map[string]string {
	return w.Host.cfg.Locks.Open(options)
}

// MaxUntold limits the changes of the configuration of which a session's plugins have not heard. Its state has all of them, whole, and each waits
// for hooks that may take their time.
const MaxUntold = 64

// configure records a change. It reports stale where the configuration is no longer the one that the change was made
// from.
func (h *Host) configure(ctx context.Context, reqMeta api.RequestMeta, change plugin.ConfigChange, announced bool, wanted requestContent) (stale bool, err error) {
	if change.Current.Equal(change.Previous) {
		return false, nil
	}
	err = h.decideByKey(ctx, change.Session, wanted, reqMeta, func(s *projector.State) ([]events.Event, error) {
		if stale = !s.Config.Equal(change.Previous); stale {
			return nil, nil
		}
		untold := 0
		for i := range s.Unnotified {
			if s.Unnotified[i].Change != nil {
				untold++
			}
		}
		if announced && untold >= MaxUntold {
			return nil, &api.LimitError{What: "changes of the configuration of which plugins have not heard", Limit: MaxUntold}
		}
		return []events.Event{events.Of("", &events.SessionConfigured{Config: change.Current, Announced: announced})}, check.Open(s)
	})
	return stale && err == nil, err
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
	if err := h.checkLockedOptions(ctx, id, options); err != nil {
		return fmt.Errorf("set options of session %s: %w", id, err)
	}
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	set := requestContent{operation.SetProtocolOptions.Name, "protocol options", &api.ProtocolOptionsArgs{Options: options, All: allFrames}}
	return h.decideByKey(ctx, id, set, reqMeta, func(s *projector.State) ([]events.Event, error) {
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

// checkLockedOptions refuses options of a session's protocol that the operator locked. Where this process cannot build
// the session's plugins, the protocol's name stands for its plugin; the worker that runs a turn decides again.
func (h *Host) checkLockedOptions(ctx context.Context, id events.SessionID, options []byte) error {
	if len(h.cfg.Locks.Plugins) == 0 {
		return nil
	}
	s, err := h.State(ctx, id)
	if err != nil {
		return err
	}
	name := cmp.Or(s.Config.Protocol, events.StandardProtocol)
	if p, _, release, err := h.stacks.Open(ctx, s); err == nil {
		name = p.ProtocolPlugin()
		release()
	}
	return h.cfg.Locks.ProtocolOptions("options", name, options)
}
