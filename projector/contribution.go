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

// system renders the instructions of a configuration, and behind them what plugins
// contributed to the running turn's prompt, as a catalogue gates it.
func (s *State) system(catalog *Catalog, config *events.Config) string {
	var sections []string
	if text := strings.TrimSpace(config.Instructions); text != "" {
		sections = append(sections, text)
	}
	if t := s.Turn(); t == nil || !t.Owes(events.PointBeforeTurn) {
		return strings.Join(sections, "\n\n")
	}
	for _, slot := range template {
		for i := range s.Contributions {
			if c := &s.Contributions[i]; c.Slot == slot && catalog.opens(c) {
				sections = append(sections, section(c))
			}
		}
	}
	return strings.Join(sections, "\n\n")
}

func section(c *events.Contribution) string {
	if c.Title == "" {
		return strings.TrimSpace(c.Content)
	}
	return "## " + c.Title + "\n\n" + strings.TrimSpace(c.Content)
}

// opens reports whether a contribution's gate is open: some tool of it is offered far enough.
func (c *Catalog) opens(contribution *events.Contribution) bool {
	if len(contribution.Tools) == 0 {
		return true
	}
	return slices.ContainsFunc(contribution.Tools, func(name string) bool {
		tool, ok := c.Tool(name)
		return ok && !tool.Orphan && tool.Effective().Rank() >= contribution.Minimum.Level().Rank()
	})
}

// viewed is what a turn shows of nodes: its view of those up to where it was
// made, and all that came after.
func viewed(nodes []*Node, t *Turn) []*Node {
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
