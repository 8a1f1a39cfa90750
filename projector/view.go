package projector

import (
	"slices"

	"github.com/lash-go/lash/events"
)

// ReadView is the conversation as hosts and plugins read it: a value that nothing changes later.
type ReadView struct {
	Session  events.SessionID
	Seq      events.Seq
	Frame    Frame
	Config   events.Config
	Nodes    []*Node          // what the frame shows of the active path, of every kind, in order
	Messages []events.Message // of those nodes, the first of equal ids
	Spilled  bool             // some node's body is in a blob
	Standing Standing
}

// Standing is the session's settings and plugin states at the view's Seq: what turns depend on, except the conversation,
// Config and Frame, which are fields of the view. It shares memory with the state: do not change it.
type Standing struct {
	Catalog       Catalog                // of the session's own tools
	Overlay       events.SessionOverlaid // over them
	Access        events.ToolAccess
	ToolSources   []string              // that were added to its plugins' tools, in that order
	Extensions    []events.Extension    // that the protocol is handed
	Contributions []events.Contribution // of plugins to the prompts of turns
	PluginOptions map[string]string     // JSON, by plugin id
	Plugins       []PluginState         // sorted by plugin
}

func (s *State) standing() Standing {
	return Standing{
		Catalog: s.Catalog, Overlay: s.Overlay.SessionOverlaid, Access: s.Access, ToolSources: slices.Clip(s.ToolSources), Extensions: slices.Clip(s.Extensions), Contributions: slices.Clip(s.Contributions),
		PluginOptions: s.Options, Plugins: slices.Clone(s.Plugins), // which change in place
	}
}

// View materialises the active path in the current frame (host specification 1.5).
func (s *State) View() (ReadView, error) {
	if shown := s.body.shown; shown != nil && shown.is(s) {
		return shown.ReadView, nil
	}
	path, err := s.Path()
	if err != nil {
		return ReadView{}, err
	}
	v := ReadView{Session: s.Session, Seq: s.Seq, Frame: s.Frame(), Config: s.Config, Standing: s.standing()}
	v.Nodes = slices.Clip(s.visible(path, v.Frame))
	v.Messages, v.Spilled = s.body.viewed(v.Frame.ID, v.Nodes)
	return v, nil
}

// Show has v, which is a view of this state with the bodies in it, stand for
// the state's view, and for that of its clones, until they change. Prompts and digests keep the references.
func (s *State) Show(v ReadView) {
	s.body.shown = &shownView{ReadView: v, leaf: s.Leaf, nodes: s.Nodes}
}

// shownView is a view that was made of a state.
type shownView struct {
	ReadView
	leaf  events.NodeID
	nodes int64
}

func (v *shownView) is(s *State) bool {
	return v.Seq == s.Seq && v.leaf == s.Leaf && v.nodes == s.Nodes && v.Frame.ID == s.Frame().ID
}

// viewMemo holds the messages of a view, so that the next one costs what is new.
type viewMemo struct {
	frame    events.FrameID
	nodes    int   // whose messages are held
	last     *Node // of them, which tells whether the path is still the same
	seen     map[events.MessageID]bool
	messages []events.Message // only ever appended to, so that views share it
	spilled  bool             // some node's body is in a blob
}

func (b *body) viewed(frame events.FrameID, nodes []*Node) (messages []events.Message, spilled bool) {
	m := &b.view
	if m.seen == nil || m.frame != frame || m.nodes > len(nodes) || m.nodes > 0 && nodes[m.nodes-1] != m.last {
		*m = viewMemo{frame: frame, seen: make(map[events.MessageID]bool)}
	}
	for _, n := range fresh(nodes[m.nodes:], m.seen) {
		m.seen[n.Message.ID] = true
		m.messages = append(m.messages, n.Message)
	}
	m.spilled = m.spilled || slices.ContainsFunc(nodes[m.nodes:], spilledNode)
	if m.nodes = len(nodes); m.nodes > 0 {
		m.last = nodes[m.nodes-1]
	}
	return slices.Clip(m.messages), m.spilled
}

// EntryKind says what an entry of the chronological projection is.
type EntryKind string

// The entries.
const (
	EntryMessage  EntryKind = "message"
	EntryToolCall EntryKind = "tool_call"
	EntryNode     EntryKind = "node" // plugin and protocol nodes
)

// Chronological is one entry of the ordered list that code-executing protocols and pages read.
type Chronological struct {
	Index   int
	Kind    EntryKind
	Node    *Node
	Message events.Message // of message entries
	Call    ToolCallView   // of tool call entries
}

// ToolCallView is a call with what came of it.
type ToolCallView struct {
	ID      events.CallID
	Tool    string
	Args    []byte
	Done    bool
	Outcome events.Outcome
	Text    string
}

// Chronology lists messages, the tool calls of each, and other nodes, in path
// order with a running index (host specification 1.5).
func (v ReadView) Chronology() []Chronological {
	var list []Chronological
	add := func(c Chronological) {
		c.Index = len(list)
		list = append(list, c)
	}
	byCall := make(map[events.CallID][]int) // unanswered entries
	seen := make(map[events.MessageID]bool)
	for _, n := range v.Nodes {
		if n.Kind != events.NodeMessage {
			add(Chronological{Kind: EntryNode, Node: n})
			continue
		}
		if seen[n.Message.ID] {
			continue
		}
		seen[n.Message.ID] = true
		add(Chronological{Kind: EntryMessage, Node: n, Message: n.Message})
		for _, p := range n.Message.Parts {
			switch p.Kind {
			case events.PartToolCall:
				if open := byCall[p.Call]; len(open) > 0 && list[open[0]].Node != n {
					byCall[p.Call] = nil // this reply's calls take over the id
				}
				byCall[p.Call] = append(byCall[p.Call], len(list))
				add(Chronological{Kind: EntryToolCall, Node: n, Call: ToolCallView{ID: p.Call, Tool: p.Tool, Args: p.Args}})
			case events.PartToolResult:
				if open := byCall[p.Call]; len(open) > 0 {
					call := &list[open[0]].Call
					call.Done, call.Outcome, call.Text = true, p.Outcome, p.Text
					byCall[p.Call] = open[1:]
				}
			case events.PartText, events.PartReasoning, events.PartAttachment:
			}
		}
	}
	return list
}

// FindCall looks a tool call up by the model's id: the newest of that id.
func FindCall(list []Chronological, id events.CallID) (ToolCallView, bool) {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Kind == EntryToolCall && list[i].Call.ID == id {
			return list[i].Call, true
		}
	}
	return ToolCallView{}, false
}

// Rewrite tells how to make the active path's messages equal target without
// changing anything: keep a prefix, branch there, append the rest (host specification 1.6).
// target has no transient messages. When nothing needs to change, branch is false and rest is empty.
func (s *State) Rewrite(target []events.Message) (leaf events.NodeID, branch bool, rest []events.Message, err error) {
	path, err := s.Path()
	if err != nil {
		return "", false, nil, err
	}
	seen := make(map[events.MessageID]bool)
	next := 0
	for _, n := range path {
		if n.Kind == events.NodeMessage && !seen[n.Message.ID] {
			if next == len(target) || target[next].ID != n.Message.ID {
				branch = true
				break
			}
			seen[n.Message.ID] = true
			next++
		}
		leaf = n.ID
	}
	return leaf, branch, target[next:], nil
}
