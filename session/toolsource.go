package session

import (
	"context"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/check"
	"github.com/lash-go/lash/session/internal/toolset"
	"github.com/lash-go/lash/session/operation"
)

// ToolSources lists a session's tool sources in the order of their addition, then those that plugins of this host
// register, by name.
func (h *Host) ToolSources(ctx context.Context, id events.SessionID) ([]api.ToolSource, error) {
	s, err := h.State(ctx, id)
	if err != nil {
		return nil, err
	}
	known, err := h.registeredSources(s)
	if err != nil {
		return nil, err
	}
	var list []api.ToolSource
	for _, name := range s.ToolSources {
		list = append(list, api.ToolSource{Name: name, Added: true, Known: slices.Contains(known, name)})
	}
	for _, name := range known {
		if !slices.Contains(s.ToolSources, name) {
			list = append(list, api.ToolSource{Name: name, Known: true})
		}
	}
	return list, nil
}

// registeredSources are the sources that plugins of this host register for a session. It does not need the session's
// live plugins, which fail to build where a source is missing.
func (h *Host) registeredSources(s *projector.State) ([]string, error) {
	if h.plugins == nil {
		return nil, nil
	}
	return h.plugins.Sources(h.stacks.BuildContext(s))
}

// AddToolSource adds the tools of a source to a session, and returns the new generation of its tools. A running turn
// has them from its next model call on. Earlier overrides of the source's tools apply again. A source that the
// session already has stays in its place: nothing is checked, no plugin of this host is called, and every node reads
// the source again, as after [Host.RefreshCatalog].
//
// Errors, for a source that the session does not have: [api.ErrUnknownSource] where no plugin of this host registers
// it, [*api.LimitError], an [*events.FieldError] where one of its tools has the name of another tool of the session,
// and those of the source.
func (h *Host) AddToolSource(ctx context.Context, id events.SessionID, source string) (generation int64, err error) {
	return h.changeSources(ctx, id, requestContent{operation.AddToolSource.Name, "add tool source", &source}, source, func(ctx context.Context, s *projector.State) ([]events.ToolEntry, error) {
		return h.toolsWith(ctx, s, source)
	}, func(now []string, has bool) ([]string, error) {
		switch {
		case has:
			return now, nil
		case len(now) >= events.MaxToolSources:
			return nil, &api.LimitError{What: "tool sources", Limit: events.MaxToolSources}
		}
		return append(slices.Clone(now), source), nil
	})
}

// RemoveToolSource removes the tools of a source, and returns the new generation. Running calls of them continue;
// later calls are refused. Overrides of the tools stay until the source returns. It calls no plugin, so a source that
// no node registers any more can be removed. A source that the session does not have is [api.ErrUnknownSource].
func (h *Host) RemoveToolSource(ctx context.Context, id events.SessionID, source string) (generation int64, err error) {
	return h.changeSources(ctx, id, requestContent{operation.RemoveToolSource.Name, "remove tool source", &source}, source, func(_ context.Context, s *projector.State) ([]events.ToolEntry, error) {
		return toolset.Without(&s.Catalog, source), nil
	}, func(now []string, has bool) ([]string, error) {
		if !has {
			return nil, toolset.UnknownSource(fmt.Sprintf("the session does not have %q", source), now)
		}
		return slices.DeleteFunc(slices.Clone(now), func(name string) bool { return name == source }), nil
	})
}

// changeSources changes a session's tool sources: change returns the new sources, and find the session's tools with
// them.
func (h *Host) changeSources(
	ctx context.Context, id events.SessionID, c requestContent, source string, find toolsFunc, change func(now []string, has bool) ([]string, error),
) (int64, error) {
	if err := events.CheckToken("source", source); err != nil {
		return 0, err
	}
	return h.decideTools(ctx, id, c, find, func(s *projector.State, tools []events.ToolEntry) ([]events.Event, error) {
		sources, err := change(s.ToolSources, slices.Contains(s.ToolSources, source))
		if err != nil {
			return nil, err
		}
		return append([]events.Event{events.Of("", &events.ToolSourcesApplied{Sources: sources})}, toolset.Event(toolset.NextGeneration(s), tools)...), nil
	})
}

// toolsWith are a session's tools with those of an additional source.
func (h *Host) toolsWith(ctx context.Context, s *projector.State, source string) ([]events.ToolEntry, error) {
	if slices.Contains(s.ToolSources, source) {
		return s.Catalog.Tools, nil
	}
	known, err := h.registeredSources(s)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(known, source) {
		return nil, toolset.UnknownSource(fmt.Sprintf("no plugin of this node registers %q", source), known)
	}
	p, _, release, err := h.stacks.Open(ctx, s)
	if err != nil {
		return nil, err
	}
	defer release()
	entry, err := p.CatalogWith(api.WithoutCaller(ctx), &s.Catalog, source)
	if err != nil {
		return nil, err
	}
	return toolset.Offer(&s.Catalog, entry.Tools), nil
}

// RefreshCatalog makes every node rebuild a session's tool catalogue, with the current overlay and tool sources, and
// returns the new generation. Nodes cache catalogues by generation. A turn records the offered tools with its next
// model call.
func (h *Host) RefreshCatalog(ctx context.Context, id events.SessionID) (generation int64, err error) {
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	err = h.decideByKey(ctx, id, requestContent{operation.RefreshCatalog.Name, "refresh catalogue", &struct{}{}}, reqMeta, func(s *projector.State) ([]events.Event, error) {
		generation = toolset.NextGeneration(s)
		return toolset.Event(generation, s.Catalog.Tools), check.Open(s)
	})
	return generation, err
}
