package projector_test

import (
	"fmt"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
)

// history is a state with helpers that append commits.
type history struct {
	t *testing.T
	*projector.State
}

func begin(t *testing.T) *history {
	t.Helper()
	h := &history{t, projector.New(sid)}
	h.add("", &events.SessionOpened{})
	return h
}

// add commits payloads of one turn; empty means no turn.
func (h *history) add(turn events.TurnID, payloads ...events.Payload) *history {
	h.t.Helper()
	c := &events.Commit{Session: sid, At: events.Millis(100 + h.Seq)}
	for _, p := range payloads {
		c.Events = append(c.Events, events.Of(turn, p))
	}
	runtest.NoError(h.t, h.Apply(events.Entry{Seq: h.Seq + 1, Commit: c}))
	return h
}

// say appends a user message with one text for each id.
func (h *history) say(ids ...string) *history {
	h.t.Helper()
	for _, id := range ids {
		h.append(message(id, events.RoleUser, text(id)))
	}
	return h
}

// append adds a message below the leaf.
func (h *history) append(m events.Message) *history {
	h.t.Helper()
	id, err := h.FreeID(events.NodeID(m.ID), nil)
	runtest.NoError(h.t, err)
	return h.add("", &events.GraphAppended{Nodes: []events.NewNode{{ID: id, Kind: events.NodeMessage, Message: m}}})
}

func (h *history) note(id events.NodeID) *history {
	h.t.Helper()
	return h.add("", &events.GraphAppended{Nodes: []events.NewNode{{ID: id, Kind: events.NodePlugin, Type: "note", Body: []byte("{}")}}})
}

func (h *history) branchTo(leaf events.NodeID) *history {
	h.t.Helper()
	return h.add("", &events.GraphBranched{Leaf: leaf})
}

func message(id string, role events.Role, parts ...events.Part) events.Message {
	return events.Message{ID: events.MessageID(id), Role: role, Parts: parts}
}

func text(s string) events.Part { return events.Part{Kind: events.PartText, Text: s} }

func call(id events.CallID) events.Part {
	return events.Part{Kind: events.PartToolCall, Call: id, Tool: "t", Args: []byte("{}")}
}

func result(id events.CallID, s string) events.Part {
	return events.Part{Kind: events.PartToolResult, Call: id, Tool: "t", Text: s}
}

// chain is a session of n messages.
func chain(t *testing.T, n int) *history {
	t.Helper()
	h := begin(t)
	for i := range n {
		h.say(fmt.Sprintf("m%d", i))
	}
	return h
}

func nodeIDs(nodes []*projector.Node) []events.NodeID {
	list := make([]events.NodeID, len(nodes))
	for i, n := range nodes {
		list[i] = n.ID
	}
	return list
}

func path(t *testing.T, s *projector.State) []events.NodeID {
	t.Helper()
	nodes, err := s.Path()
	runtest.NoError(t, err)
	return nodeIDs(nodes)
}

func prompt(t *testing.T, s *projector.State) projector.Prompt {
	t.Helper()
	p, err := s.Prompt()
	runtest.NoError(t, err)
	return p
}

// transcript renders messages: role, then each part.
func transcript(list []events.Message) []string {
	var out []string
	for _, m := range list {
		line := string(m.Role)
		for _, p := range m.Parts {
			switch p.Kind {
			case events.PartToolCall:
				line += fmt.Sprintf(" call:%s", p.Call)
			case events.PartToolResult:
				line += fmt.Sprintf(" %s=%s", p.Call, p.Text)
			case events.PartText, events.PartReasoning, events.PartAttachment:
				line += fmt.Sprintf(" %s", p.Text)
			}
		}
		out = append(out, line)
	}
	return out
}
