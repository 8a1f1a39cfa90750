package toolset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/turn"
)

// NextGeneration is the generation that a change of the tools makes.
func NextGeneration(s *projector.State) int64 { return s.Catalog.Generation + 1 }

// Event records a session's tools.
func Event(generation int64, tools []events.ToolEntry) []events.Event {
	tools = slices.Clone(tools)
	slices.SortFunc(tools, func(a, b events.ToolEntry) int { return strings.Compare(a.Name, b.Name) })
	var list []events.Event
	for _, part := range (&events.ToolStateApplied{Generation: generation, Tools: tools}).Parts() {
		list = append(list, events.Of("", part))
	}
	return list
}

// WithRestOff is tools, and the other known tools switched off. Without an entry a tool would return with the next
// catalogue of the plugins.
func WithRestOff(known, tools []events.ToolEntry) []events.ToolEntry {
	tools = slices.Clone(tools)
	for _, k := range known {
		if !slices.ContainsFunc(tools, func(t events.ToolEntry) bool { return t.Name == k.Name }) {
			k.Override = events.Overridden(events.AvailOff)
			tools = append(tools, k)
		}
	}
	return tools
}

// Declared are the entries of a request as their sources declare them. A request sets which tools the session has and
// their levels. It does not set what a tool is: with other effects a call could run twice, and the gate would not ask
// about it.
func Declared(known, tools []events.ToolEntry) ([]events.ToolEntry, error) {
	tools = slices.Clone(tools)
	for i := range tools {
		t := &tools[i]
		sameSource := func(k events.ToolEntry) bool { return k.Source == t.Source }
		same := slices.IndexFunc(known, func(k events.ToolEntry) bool { return k.Name == t.Name && (sameSource(k) || t.Orphan) })
		switch {
		case same >= 0:
			override := t.Override
			*t = known[same]
			t.Override = override
		case t.Orphan: // no call reaches it; its source may return
		case !slices.ContainsFunc(known, sameSource):
			return nil, fmt.Errorf("tool %q: %w: %q", t.Name, api.ErrUnknownSource, t.Source)
		default:
			return nil, fmt.Errorf("%w: source %q does not have %q", api.ErrUnknownTool, t.Source, t.Name)
		}
	}
	return tools, nil
}

// UnknownSource is the refusal of a source. It lists the sources that exist.
func UnknownSource(why string, there []string) error {
	return fmt.Errorf("%w: %s: there is %s", api.ErrUnknownSource, why, cmp.Or(strings.Join(there, ", "), "none"))
}

// Without are a session's tools without those of a source. A tool whose level a host set keeps its entry, and is off.
func Without(c *projector.Catalog, source string) []events.ToolEntry {
	kept := slices.DeleteFunc(slices.Clone(c.Tools), func(t events.ToolEntry) bool { return t.Source == source })
	return Offer(c, kept)
}

// Offer is the catalogue's tools with the offered ones; the same list where nothing changes.
func Offer(c *projector.Catalog, tools []events.ToolEntry) []events.ToolEntry {
	if fact := turn.OfferEvent(c, tools); fact != nil {
		return fact.Tools
	}
	return c.Tools
}
