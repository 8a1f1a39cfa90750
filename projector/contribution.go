package projector

import (
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
)

// template is the order of the slots in a prompt.
//
//nolint:gochecknoglobals // read-only table
var template = []events.Slot{
	events.SlotIntro, events.SlotExecution, events.SlotGuidance,
	events.SlotProjectInstructions, events.SlotRuntimeContext, events.SlotEnvironment,
}

// system renders the system text of a prompt: the configuration's instructions, then the slots of the template. A
// slot has the plugins' contributions to the running turn that the catalogue admits, changed by the configuration's
// layers.
func (s *State) system(catalog *Catalog, config *events.Config) string {
	var sections []string
	if text := strings.TrimSpace(config.Instructions); text != "" {
		sections = append(sections, text)
	}
	t := s.Turn()
	contributed := t != nil && t.HasHooks(events.PointBeforeTurn)
	for _, slot := range template {
		var own []string
		for i := range s.Contributions {
			if c := &s.Contributions[i]; contributed && c.Slot == slot && catalog.opens(c) {
				own = append(own, section(c.Title, c.Content))
			}
		}
		sections = append(sections, layered(slot, own, config.Layers)...)
	}
	return strings.Join(sections, "\n\n")
}

// layered applies layers to the sections of a slot.
func layered(slot events.Slot, sections []string, layers []events.PromptLayer) []string {
	for i := range layers {
		l := &layers[i]
		if l.Slot != slot {
			continue
		}
		if l.Op != events.LayerAdd {
			sections = nil
		}
		if l.Op != events.LayerClear {
			sections = append(sections, section(l.Title, l.Content))
		}
	}
	return sections
}

func section(title, content string) string {
	if title == "" {
		return strings.TrimSpace(content)
	}
	return "## " + title + "\n\n" + strings.TrimSpace(content)
}

// opens reports whether one of the contribution's tools has the required availability.
func (c *Catalog) opens(contribution *events.Contribution) bool {
	if len(contribution.Tools) == 0 {
		return true
	}
	return slices.ContainsFunc(contribution.Tools, func(name string) bool {
		tool, ok := c.Tool(name)
		return ok && !tool.Orphan && tool.Effective().Rank() >= contribution.Minimum.Level().Rank()
	})
}

// applyView applies a turn's view: it replaces the nodes up to Upto, and later nodes follow.
func applyView(nodes []*Node, t *Turn) []*Node {
	rest := 0
	at := make(map[events.MessageID]int, len(nodes))
	for i, n := range nodes {
		if n.Kind == events.NodeMessage {
			if _, twice := at[n.Message.ID]; !twice {
				at[n.Message.ID] = i
			}
		}
		if n.ID == t.Upto {
			rest = i + 1
		}
	}
	var list []*Node
	for i := range t.View {
		v := &t.View[i]
		if !v.Message.IsZero() {
			list = append(list, &Node{ID: events.NodeID(v.Message.ID), Kind: events.NodeMessage, Message: v.Message})
			continue
		}
		from, ok := at[v.From]
		to, found := at[v.To]
		if ok && found && from <= to && to < rest {
			list = append(list, nodes[from:to+1]...)
		}
	}
	return append(list, nodes[rest:]...)
}
