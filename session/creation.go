package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/internal/toolset"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
)

// creation is a session before its first commit.
type creation struct {
	h        *Host
	id       events.SessionID
	reqMeta  api.RequestMeta
	creators []string         // callers on whose behalf the session is created
	now      *projector.State // the copied session as it is now, where the base is an earlier state; else nil
	meta     commitMeta
	req      api.CreateRequest
	creator  *projector.State // nil: none
	base     *projector.State // nil: empty; may be partial
}

// setCommitMeta sets the metadata of the commits, from the full content of the request.
func (o *creation) setCommitMeta(ctx context.Context) (err error) {
	body := struct {
		Request  api.CreateRequest `msgpack:"r"`
		Snapshot events.SessionID  `msgpack:"s,omitempty"`
		At       events.Seq        `msgpack:"q,omitempty"`
	}{Request: o.req}
	body.Request.ID = o.id
	if s := o.req.Snapshot; s != nil {
		body.Snapshot, body.At = s.Session, s.Seq
	}
	o.meta, err = o.h.keyedMeta(ctx, requestContent{operation.Create.Name, "create", &body}, o.reqMeta)
	return err
}

// loadSources loads the states that the new session follows from: that of its creator, or parent, and the base that it
// copies. It refuses a request that they do not fit, and applies the operator's locks.
func (o *creation) loadSources(ctx context.Context, creator events.SessionID) (err error) {
	if creator == "" {
		creator = o.req.Parent
	} else if o.req.Relation != events.RelationRoot && o.req.Parent == "" {
		o.req.Parent = creator
	}
	caller, _ := api.CallerOf(ctx)
	if creator != "" {
		elsewhere := o.req.Start != api.StartCurrent && o.req.Plugins == "" && !caller.Bounded() // a parent that the caller cannot reach gets no children
		if o.creator, err = o.h.State(api.WithSession(ctx, creator), creator); errors.Is(err, events.ErrNoSession) && elsewhere {
			o.creator, err = nil, nil // the parent is not in this deployment
		}
		if err != nil {
			return err
		}
	}
	if err := o.h.checkParents(ctx, o.id, o.req.Parent); err != nil {
		return err
	}
	switch o.req.Start {
	case api.StartEmpty:
	case api.StartCurrent:
		if o.creator != nil {
			o.base, err = o.h.reader.Open(api.WithSession(ctx, creator), creator)
		}
	case api.StartExisting:
		err = o.loadCopied(api.WithSession(ctx, o.req.From))
	case api.StartSnapshot:
		if o.req.Snapshot != nil {
			o.base, err = o.h.reader.OfSnapshot(ctx, o.req.Snapshot)
		}
	default:
		return &events.FieldError{Field: "start", Reason: fmt.Sprintf("unknown %q", o.req.Start), Err: events.ErrInvalid}
	}
	if err == nil && o.base != nil && o.base.Redacted > 0 {
		return &events.FieldError{Field: "from", Reason: fmt.Sprintf("session %s is redacted from sequence %d on: a copy begins before that", o.base.Session, o.base.Redacted), Err: events.ErrInvalid}
	}
	if err == nil && o.req.Start != api.StartEmpty && o.base == nil {
		err = &events.FieldError{Field: "start", Reason: fmt.Sprintf("%q without a state to start from", o.req.Start), Err: events.ErrInvalid}
	}
	if err == nil {
		err = o.reduceToPath(ctx)
	}
	if err == nil {
		err = o.applyLocks(ctx)
	}
	if err == nil && o.req.Plugins == api.PluginsFork && o.creator == nil && o.base == nil {
		err = &events.FieldError{Field: "plugins", Reason: "fork without a creator", Err: events.ErrInvalid}
	}
	return err
}

// applyLocks applies the operator's locks to the request, and refuses an unknown model or protocol. What the session
// copies from a session that is older than a lock, the nodes check.
func (o *creation) applyLocks(ctx context.Context) (err error) {
	if err := o.h.checkModel(ctx, o.req.Config); err != nil {
		return err
	}
	if !o.req.Config.IsZero() || o.base == nil && o.creator == nil {
		if o.req.Config, err = o.h.allowed(o.req.Config, events.Config{}); err != nil {
			return err
		}
	}
	if o.h.plugins != nil && o.req.Config.Protocol != "" {
		if err := o.h.plugins.CheckConfig(plugin.BuildContext{Session: o.id, Parent: o.req.Parent, Labels: o.req.Labels, Config: o.req.Config, Options: o.h.cfg.Locks.Open(o.req.Options)}); err != nil {
			return err
		}
	}
	for id, text := range o.req.Options {
		if o.creator != nil && o.creator.Options[id] == text {
			continue
		}
		if err := o.h.cfg.Locks.Options("options", map[string]string{id: text}); err != nil {
			return err
		}
	}
	return nil
}

// openedEvent builds the event that opens the session.
func (o *creation) openedEvent(ctx context.Context) *events.SessionOpened {
	p := &events.SessionOpened{
		Config: o.req.Config, Parent: o.req.Parent, Labels: o.req.Labels, Relation: o.req.Relation, Options: o.req.Options,
		Access: o.req.Access, Subagent: o.req.Subagent, Usage: o.req.Usage,
	}
	p.Owner, _ = o.ownership()
	if p.Parent != "" && p.Relation == events.RelationRoot {
		p.Relation = events.RelationChild
	}
	if o.req.First != nil {
		p.First = *o.req.First
	}
	if p.Config.IsZero() {
		switch {
		case o.base != nil:
			p.Config = o.inherited(ctx).Config
		case o.creator != nil:
			p.Config = o.creator.Config
		}
	}
	if locked, err := o.h.cfg.Locks.Config(p.Config); err == nil {
		p.Config = locked
	}
	if o.creator != nil && p.Parent == o.creator.Session {
		p.Config.Environment = cmp.Or(p.Config.Environment, o.creator.Config.Environment)
		p.Access = restrictAccess(o.creator.Access, p.Access)
	}
	if o.base != nil {
		p.Forked = events.ForkedFrom{Session: o.base.Session, Leaf: o.base.Leaf, Seq: o.base.Seq}
		copyRestrictions(o.inherited(ctx), p)
	}
	return p
}

// copyRestrictions copies the restrictions of a state to a copy: the fields of [api.CreateRequest.Configures]. A request
// of a caller with the right to configure can replace them.
func copyRestrictions(from *projector.State, p *events.SessionOpened) {
	p.Access = restrictAccess(from.Access, p.Access)
	if p.Subagent.IsZero() {
		p.Subagent = from.Subagent
	}
	if p.Config.Instructions == "" && len(p.Config.Layers) == 0 {
		p.Config.Instructions, p.Config.Layers = from.Config.Instructions, from.Config.Layers
	}
	p.Config.Protocol = cmp.Or(p.Config.Protocol, from.Config.Protocol)
	p.Config.Environment = cmp.Or(p.Config.Environment, from.Config.Environment)
	p.Config.RetainMillis = cmp.Or(p.Config.RetainMillis, from.Config.RetainMillis)
	if len(from.Options) > 0 {
		options := maps.Clone(from.Options)
		maps.Copy(options, p.Options)
		p.Options = options
	}
}

// restrictAccess restricts a child: it may not use a tool that its parent may not use.
func restrictAccess(parent, child events.ToolAccess) events.ToolAccess {
	hide := slices.Clone(parent.Hidden)
	if len(parent.Tools) > 0 {
		if len(child.Tools) == 0 {
			child.Tools = parent.Tools
		}
		for _, name := range child.Tools {
			if !slices.Contains(parent.Tools, name) {
				hide = append(hide, name)
			}
		}
	}
	for _, name := range hide {
		if !slices.Contains(child.Hidden, name) {
			child.Hidden = append(slices.Clip(child.Hidden), name)
		}
	}
	return child
}

// inheritedBytes limits the plugin states that the first commit of a fork contains inline, in bytes. That commit also
// has the opening, the catalogue and the first nodes, which may be events of the largest size.
const inheritedBytes = 64 << 10

// inherited is the state whose configuration, plugin states, tool sources, overlay, extensions and tool state the new
// session begins with; nil: it begins without. A copy of a conversation has those of its source. They restrict what its turns can do,
// so a copy of an earlier state has those of now, unless the caller has the right to change them in the source. A
// session without a copied conversation has those of its creator where the request says so.
func (o *creation) inherited(ctx context.Context) *projector.State {
	switch {
	case o.base == nil && o.req.Plugins == api.PluginsFork:
		return o.creator
	case o.now == nil:
		return o.base
	case o.req.At > 0 && api.Allows(ctx, api.RightConfigure, o.now):
		return o.base
	}
	return o.now
}

// keepOverlays lets the new session's overlay use the handlers that this process has. The name of a snapshot's session
// is the caller's word.
func (o *creation) keepOverlays(ctx context.Context) {
	if from := o.inherited(ctx); from != nil && o.req.Start != api.StartSnapshot {
		o.h.stacks.KeepOverlays(o.id, o.h.stacks.Overlays(from.Session)...)
	}
}

// inheritedEvents are the events that copy what the new session has of [creation.inherited].
func (o *creation) inheritedEvents(ctx context.Context) ([]events.Event, error) {
	from := o.inherited(ctx)
	if from == nil {
		return nil, nil
	}
	var list []events.Event
	size := 0
	for _, s := range from.Plugins {
		saved := &events.PluginStateSaved{
			Plugin: s.Plugin, Version: s.Version, Revision: s.Revision, State: s.State, Blob: s.Blob, Artifacts: s.Artifacts,
		}
		body := blob.Size(saved)
		if size+body <= inheritedBytes {
			size += body
			list = append(list, events.Of("", saved))
			continue
		}
		spilled, err := blob.SpillAbove(ctx, o.h.blobs, saved, 0, 0)
		if err != nil {
			return nil, err
		}
		list = append(list, events.Of("", spilled))
	}
	if sources := from.ToolSources; len(sources) > 0 {
		list = append(list, events.Of("", &events.ToolSourcesApplied{Sources: sources}))
	}
	if over := from.Overlay.SessionOverlaid; !over.IsZero() && o.req.Overlay.IsZero() {
		list = append(list, events.Of("", &over))
	}
	for _, e := range from.Extensions {
		list = append(list, events.Of("", &events.SessionExtended{Extension: e}))
	}
	if c := from.Catalog; len(c.Tools) > 0 {
		list = append(list, toolset.Event(max(1, c.Generation), c.Tools)...)
	}
	return list, nil
}

// overlay is the event of the overlay that the request names; none where it names none.
func (o *creation) overlay(opened *events.SessionOpened) ([]events.Event, error) {
	if o.req.Overlay.IsZero() {
		return nil, nil
	}
	over := plugin.Overlay{Contributions: o.req.Overlay.Contributions, WithoutBase: o.req.Overlay.WithoutBase}
	if named := o.req.Overlay.Tools; len(named) > 0 {
		if o.h.plugins == nil {
			return nil, fmt.Errorf("tools of an overlay: %w", plugin.ErrUnavailable)
		}
		set, err := o.h.plugins.Reserved(plugin.BuildContext{
			Session: o.id, Parent: opened.Parent, Labels: opened.Labels, Config: opened.Config, Options: o.h.cfg.Locks.Open(opened.Options), Access: opened.Access, Subagent: opened.Subagent,
		}, named)
		if err != nil {
			return nil, err
		}
		over.Tools = []*plugin.Tools{set}
	}
	fact := over.Recorded()
	return []events.Event{events.Of("", &fact)}, over.Check()
}

// ownership is the owner of a new session, and its initial grants. A copy belongs to the owner of the copied session,
// else to the owner of its parent. A creating caller that is not the owner keeps its rights of the source: else it
// could not reach the new session.
func (o *creation) ownership() (owner string, grants []events.Event) {
	from := o.creator
	if o.base != nil && o.req.Start != api.StartSnapshot { // the caller provides a snapshot's content
		from = o.base
	}
	if from == nil {
		return o.reqMeta.Actor, nil
	}
	for _, maker := range o.creators {
		if rights := cmp.Or(o.now, from).Granted(maker); len(rights) > 0 {
			grants = append(grants, events.Of("", &events.SessionGranted{To: maker, Rights: rights, By: from.Owner}))
		}
	}
	return from.Owner, grants
}
