package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/internal/check"
	"github.com/lash-go/lash/session/internal/toolset"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
)

// ToolCatalog lists a session's tools at level searchable or above, one JSON object each.
func (h *Host) ToolCatalog(ctx context.Context, id events.SessionID) ([]json.RawMessage, error) {
	s, err := h.State(ctx, id)
	if err != nil {
		return nil, err
	}
	entry, err := h.pluginCatalog(ctx, s)
	if err != nil {
		return nil, err
	}
	if entry == nil {
		tools, err := blob.Contracts(ctx, h.b, s.Catalog.Tools, nil)
		return plugin.ListTools(tools), err
	}
	return slices.Clone(entry.List()), nil
}

// ToolState returns the session's tools and the level at which each is offered. Where the host has plugins, these are
// the tools that they offer now, also before a turn recorded them.
func (h *Host) ToolState(ctx context.Context, id events.SessionID) (api.ToolState, error) {
	s, err := h.State(ctx, id)
	if err != nil {
		return api.ToolState{}, err
	}
	tools := s.Catalog.Tools
	state := api.ToolState{Generation: s.Catalog.Generation}
	entry, err := h.pluginCatalog(ctx, s)
	if err == nil && entry != nil {
		tools, state.LeftOut = toolset.Offer(&s.Catalog, entry.Tools), entry.LeftOut
	}
	if err == nil {
		tools, err = blob.Contracts(ctx, h.b, tools, nil)
	}
	state.Tools = slices.Clone(tools)
	state.Pack()
	if h.plugins != nil {
		state.LeftOut = slices.Concat(h.plugins.LeftOut(), state.LeftOut)
	}
	return state, err
}

// tools are the session's tools as its plugins offer them now, with the overrides of the history. Where no plugin
// offers any, they are the tools of the history.
func (h *Host) tools(ctx context.Context, s *projector.State) ([]events.ToolEntry, error) {
	entry, err := h.pluginCatalog(ctx, s)
	if err != nil {
		return nil, err
	}
	if entry != nil {
		return toolset.Offer(&s.Catalog, entry.Tools), nil
	}
	return s.Catalog.Tools, nil
}

// pluginCatalog is the catalogue of the session's plugins; nil where this host has no plugins, or where the call comes from
// the code that builds the catalogue.
func (h *Host) pluginCatalog(ctx context.Context, s *projector.State) (*plugin.CatalogEntry, error) {
	if h.plugins == nil {
		return nil, nil //nolint:nilnil // no catalogue is available
	}
	p, _, release, err := h.stacks.Open(ctx, s)
	if err == nil {
		defer release()
		var entry *plugin.CatalogEntry
		if entry, err = p.Catalog(&s.Catalog); err == nil {
			return entry, nil
		}
	}
	if errors.Is(err, plugin.ErrBuilding) {
		err = nil
	}
	return nil, err
}

// ApplyToolState replaces the tool state and returns the new generation, if the state's generation is the session's:
// [*api.GenerationError] otherwise. It uses the name, the source and the override of each tool; the source declares
// the rest. Tools that the state leaves out are off, also where plugins offer them. A source that no plugin registers
// is [api.ErrUnknownSource]; a tool that its source does not have is [api.ErrUnknownTool].
func (h *Host) ApplyToolState(ctx context.Context, id events.SessionID, state api.ToolState) (generation int64, err error) {
	return h.decideTools(ctx, id, requestContent{operation.ApplyToolState.Name, "apply tool state", &state}, h.tools, func(s *projector.State, known []events.ToolEntry) ([]events.Event, error) {
		if state.Generation != s.Catalog.Generation {
			return nil, &api.GenerationError{Expected: state.Generation, Actual: s.Catalog.Generation}
		}
		tools, err := toolset.Declared(known, state.Tools)
		if err != nil {
			return nil, err
		}
		return toolset.Event(toolset.NextGeneration(s), toolset.WithRestOff(known, tools)), nil
	})
}

// toolsFunc finds the tools that a decision needs.
type toolsFunc func(context.Context, *projector.State) ([]events.ToolEntry, error)

// decideTools runs a decision on a session's tools, and returns the resulting generation. It calls the plugins first,
// without a lock, and again where the tools changed meanwhile.
func (h *Host) decideTools(ctx context.Context, id events.SessionID, c requestContent, find toolsFunc, d func(*projector.State, []events.ToolEntry) ([]events.Event, error)) (generation int64, err error) {
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	meta, err := h.keyedMeta(ctx, c, reqMeta)
	if err == nil {
		_, err = h.checkPlugins()
	}
	if err != nil {
		return 0, err
	}
	var current *projector.State
	var known []events.ToolEntry
	err = decideWithPlugins(func() (done bool, err error) {
		if current, err = h.State(ctx, id); err != nil {
			return false, err
		}
		// The repeat is found first: after the request's commit the tools are no longer those that it was made for.
		if generation, done, err = h.generationOfRepeat(ctx, current, meta); done || err != nil {
			return done, err
		}
		if err = check.Open(current); err == nil {
			known, err = find(ctx, current)
		}
		return false, err
	}, func() (stale bool, err error) {
		err = h.decideByKey(ctx, id, c, reqMeta, func(s *projector.State) ([]events.Event, error) {
			if err := check.Open(s); err != nil {
				return nil, err
			}
			if stale = s.Catalog.Generation != current.Catalog.Generation; stale {
				return nil, nil
			}
			generation = toolset.NextGeneration(s)
			return d(s, known)
		})
		return stale, err
	})
	if err != nil {
		return 0, err
	}
	return generation, nil
}

// generationOfRepeat is the generation that an earlier commit of the same request gave; found is false where the
// history has none.
func (h *Host) generationOfRepeat(ctx context.Context, s *projector.State, meta commitMeta) (generation int64, found bool, err error) {
	seq, err := meta.repeatOf(ctx, s)
	if err != nil || seq == 0 {
		return 0, false, err
	}
	before, err := h.stateBeforeCommit(ctx, s, seq)
	if err != nil {
		return 0, false, err
	}
	return toolset.NextGeneration(before), true, nil
}

// SetToolsAvailability overrides the level of tools in one step, all or none, and returns the new generation; ""
// removes the override.
func (h *Host) SetToolsAvailability(ctx context.Context, id events.SessionID, names []string, level events.Override) (generation int64, err error) {
	if err := check.Count("names", len(names), check.MaxToolNames); err != nil {
		return 0, fmt.Errorf("set tool availability: %w", err)
	}
	return h.decideTools(ctx, id, requestContent{operation.SetToolsAvailability.Name, "set tool availability", &api.AvailabilityArgs{Names: names, Level: level}}, h.tools, func(s *projector.State, tools []events.ToolEntry) ([]events.Event, error) {
		state := api.ToolState{Tools: tools}
		for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
			if err := state.SetAvailability(name, level); err != nil {
				return nil, err
			}
		}
		return toolset.Event(toolset.NextGeneration(s), state.Tools), nil
	})
}
