package projector

import (
	"cmp"
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

// system renders the system text of a prompt: the configuration's instructions, or what a plugin has put in their place
// for the running turn, then the slots of the template. A slot has the plugins' contributions to the running turn that
// the catalogue admits, changed by the configuration's layers.
func (s *State) system(catalog *Catalog, config *events.Config) string {
	var sections []string
	base := config.Instructions
	if t := s.Turn(); t != nil {
		base = cmp.Or(t.System, base)
	}
	if text := strings.TrimSpace(base); text != "" {
		sections = append(sections, text)
	}
	list := s.contributed()
	for _, slot := range template {
		var own []string
		for i := range list {
			if c := &list[i]; c.Slot == slot && catalog.opens(c) {
				own = append(own, section(c.Title, c.Content))
			}
		}
		sections = append(sections, layered(slot, own, config.Layers)...)
	}
	return strings.Join(sections, "\n\n")
}

// Contributed is a contribution of a plugin at a model call. It stays until the plugin contributes again, or the turn ends.
type Contributed struct {
	events.Contribution
	Plugin string `msgpack:"p"`
}

// contributed are the contributions to the running turn: those from before it and those of its model calls, by priority.
func (s *State) contributed() (list []events.Contribution) {
	t := s.Turn()
	if t == nil {
		return nil
	}
	if t.HasHooks(events.PointBeforeTurn) {
		list = s.Contributions
	}
	if len(t.Contributed) == 0 {
		return list
	}
	list = slices.Clone(list)
	for i := range t.Contributed {
		list = append(list, t.Contributed[i].Contribution)
	}
	slices.SortStableFunc(list, func(a, b events.Contribution) int { return cmp.Compare(a.Priority, b.Priority) })
	return list
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
