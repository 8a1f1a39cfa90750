package session

import (
	"context"
	"maps"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
)

// openedEvent builds the event that opens the session.
func (o *creation) openedEvent() *events.SessionOpened {
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
			p.Config = o.base.Config
		case o.creator != nil:
			p.Config = o.creator.Config
		}
	}
	if locked, err := o.h.locks.Config(p.Config); err == nil {
		p.Config = locked
	}
	if o.creator != nil && p.Parent == o.creator.Session {
		p.Access = restrictAccess(o.creator.Access, p.Access)
	}
	if o.base != nil {
		p.Forked = events.ForkedFrom{Session: o.base.Session, Leaf: o.base.Leaf, Seq: o.base.Seq}
		if o.req.Start != api.StartSnapshot { // the caller provides a snapshot's content
			o.copyRestrictions(p)
		}
	}
	return p
}

// copyRestrictions copies the restrictions of the base to the copy. A request of a caller with the right to configure can replace
// them.
func (o *creation) copyRestrictions(p *events.SessionOpened) {
	p.Access = restrictAccess(o.base.Access, p.Access)
	if p.Subagent.IsZero() {
		p.Subagent = o.base.Subagent
	}
	if p.Config.Instructions == "" && len(p.Config.Layers) == 0 {
		p.Config.Instructions, p.Config.Layers = o.base.Config.Instructions, o.base.Config.Layers
	}
	if len(o.base.Options) > 0 {
		options := maps.Clone(o.base.Options)
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

// inheritedEvents are the events of a fork that copy the creator's plugin states, tool sources, overlay, extensions and
// tool state.
func (o *creation) inheritedEvents(ctx context.Context) ([]events.Event, error) {
	if o.req.Plugins != api.PluginsFork {
		return nil, nil
	}
	var list []events.Event
	size := 0
	for _, s := range o.creator.Plugins {
		saved := &events.PluginStateSaved{
			Plugin: s.Plugin, Version: s.Version, Revision: s.Revision, State: s.State, Blob: s.Blob, Artifacts: s.Artifacts,
		}
		body := blob.Size(saved)
		if size+body <= inheritedBytes {
			size += body
			list = append(list, events.Of("", saved))
			continue
		}
		spilled, err := blob.SpillAbove(ctx, o.h.b, saved, 0, 0)
		if err != nil {
			return nil, err
		}
		list = append(list, events.Of("", spilled))
	}
	if sources := o.creator.ToolSources; len(sources) > 0 {
		list = append(list, events.Of("", &events.ToolSourcesApplied{Sources: sources}))
	}
	if over := o.creator.Overlay.SessionOverlaid; !over.IsZero() {
		list = append(list, events.Of("", &over))
	}
	for _, e := range o.creator.Extensions {
		list = append(list, events.Of("", &events.SessionExtended{Extension: e}))
	}
	if c := o.creator.Catalog; len(c.Tools) > 0 {
		list = append(list, events.Of("", &events.ToolStateApplied{Generation: max(1, c.Generation), Tools: c.Tools}))
	}
	return list, nil
}
