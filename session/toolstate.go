package session

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// ToolCatalog lists a session's tools from searchable on, one JSON object each.
func (h *Host) ToolCatalog(ctx context.Context, id events.SessionID) ([]json.RawMessage, error) {
	s, err := h.State(ctx, id)
	if err != nil {
		return nil, err
	}
	if h.plugins == nil {
		return plugin.ListTools(s.Catalog.Tools), nil
	}
	p, _, release, err := h.Stack(ctx, s)
	if err != nil {
		return nil, err
	}
	defer release()
	entry, err := p.Catalog(&s.Catalog)
	if err != nil {
		return nil, err
	}
	return slices.Clone(entry.List()), nil
}

// ToolState is which tools a session has and how far each is offered.
func (h *Host) ToolState(ctx context.Context, id events.SessionID) (api.ToolState, error) {
	s, err := h.State(ctx, id)
	if err != nil {
		return api.ToolState{}, err
	}
	return api.ToolState{Generation: s.Catalog.Generation, Tools: slices.Clone(s.Catalog.Tools)}, nil
}

// ApplyToolState replaces the tool state and gives the new generation, if the
// state's is the session's: [*api.GenerationError] otherwise. Tools that it
// leaves out are gone. A source that nobody registered is
// [api.ErrUnknownSource]; a tool that its source does not have, [api.ErrUnknownTool].
func (h *Host) ApplyToolState(ctx context.Context, id events.SessionID, state api.ToolState) (generation int64, err error) {
	err = h.decide(ctx, id, "apply tool state", func(s *projector.State) ([]events.Event, error) {
		if err := open(s); err != nil {
			return nil, err
		}
		if state.Generation != s.Catalog.Generation {
			return nil, &api.GenerationError{Expected: state.Generation, Actual: s.Catalog.Generation}
		}
		if err := h.checkTools(ctx, s, state.Tools); err != nil {
			return nil, err
		}
		generation = s.Catalog.Generation + 1
		return toolStateEvent(generation, state.Tools), nil
	})
	return generation, err
}

func toolStateEvent(generation int64, tools []events.ToolEntry) []events.Event {
	tools = slices.Clone(tools)
	slices.SortFunc(tools, func(a, b events.ToolEntry) int { return strings.Compare(a.Name, b.Name) })
	return []events.Event{events.Of("", &events.ToolStateApplied{Generation: generation, Tools: tools})}
}

// checkTools holds entries against what the session's plugins offer, or where
// this host has none, against what the history says they did.
func (h *Host) checkTools(ctx context.Context, s *projector.State, tools []events.ToolEntry) error {
	known := s.Catalog.Tools
	if h.plugins != nil {
		p, _, release, err := h.Stack(ctx, s)
		if err != nil {
			return err
		}
		defer release()
		entry, err := p.Catalog(&s.Catalog)
		if err != nil {
			return err
		}
		known = entry.Tools
	}
	for i := range tools {
		t := &tools[i]
		if t.Orphan {
			continue // its source may return
		}
		sameSource := func(k events.ToolEntry) bool { return k.Source == t.Source }
		if !slices.ContainsFunc(known, sameSource) {
			return fmt.Errorf("tool %q: %w: %q", t.Name, api.ErrUnknownSource, t.Source)
		}
		if !slices.ContainsFunc(known, func(k events.ToolEntry) bool { return sameSource(k) && k.Name == t.Name }) {
			return fmt.Errorf("%w: source %q does not have %q", api.ErrUnknownTool, t.Source, t.Name)
		}
	}
	return nil
}

// SetToolsAvailability overrides the level of tools in one step, all or none,
// and gives the new generation; "" lifts the override.
func (h *Host) SetToolsAvailability(ctx context.Context, id events.SessionID, names []string, level events.Override) (generation int64, err error) {
	err = h.decide(ctx, id, "set tool availability", func(s *projector.State) ([]events.Event, error) {
		if err := open(s); err != nil {
			return nil, err
		}
		state := api.ToolState{Tools: s.Catalog.Tools}
		for _, name := range names {
			if err := state.SetAvailability(name, level); err != nil {
				return nil, err
			}
		}
		generation = s.Catalog.Generation + 1
		return toolStateEvent(generation, state.Tools), nil
	})
	return generation, err
}
