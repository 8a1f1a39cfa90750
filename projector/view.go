package projector

import (
	"slices"

	"github.com/lash-go/lash/events"
)

// ReadView is the conversation for hosts and plugins. It is a value: later changes of the state do not change it.
type ReadView struct {
	Session  events.SessionID
	Seq      events.Seq
	Frame    Frame
	Config   events.Config
	Nodes    []*Node          // nodes of the active path that the frame shows, of every kind, in order
	Messages []events.Message // messages of those nodes; of equal ids the first
	Spilled  bool             // the body of some node is in a blob
	Standing Standing
}

// Standing is the session's settings and plugin states at the view's Seq: what turns depend on, except the conversation,
// Config and Frame, which are fields of the view. It shares memory with the state: do not change it.
type Standing struct {
	Catalog       Catalog                // the session's own tools
	Overlay       events.SessionOverlaid // over the session's own tools
	Access        events.ToolAccess
	ToolSources   []string              // added tool sources, in order
	Extensions    []events.Extension    // extensions for the protocol, in order
	Contributions []events.Contribution // plugins' contributions to prompts
	PluginOptions map[string]string     // JSON by plugin id
	Plugins       []PluginState         // sorted by plugin
}

func (s *State) standing() Standing {
	return Standing{
		Catalog: s.Catalog, Overlay: s.Overlay.SessionOverlaid, Access: s.Access, ToolSources: slices.Clip(s.ToolSources), Extensions: slices.Clip(s.Extensions), Contributions: slices.Clip(s.Contributions),
		PluginOptions: s.Options, Plugins: slices.Clone(s.Plugins), // cloned because the fold changes it in place
	}
}

// View materialises the active path in the current frame.
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

// CacheView makes v the result of [State.View], also for clones, until the state changes. v is a view of this state
// with all bodies loaded. Prompts and digests use the references.
func (s *State) CacheView(v ReadView) {
	s.body.shown = &shownView{ReadView: v, leaf: s.Leaf, nodes: s.Nodes}
}

// shownView is a cached view of a state.
type shownView struct {
	ReadView
	leaf  events.NodeID
	nodes int64
}

func (v *shownView) is(s *State) bool {
	return v.Seq == s.Seq && v.leaf == s.Leaf && v.nodes == s.Nodes && v.Frame.ID == s.Frame().ID
}

func (b *stateBody) viewed(frame events.FrameID, nodes []*Node) (messages []events.Message, spilled bool) {
	m := &b.view
	m.keep(frame, nodes)
	for _, n := range unseenMessages(nodes[m.nodes:], m.seen) {
		m.seen[n.Message.ID] = true
		m.messages = append(m.messages, n.Message)
	}
	m.spilled = m.spilled || slices.ContainsFunc(nodes[m.nodes:], spilledNode)
	if m.nodes = len(nodes); m.nodes > 0 {
		m.last = nodes[m.nodes-1]
	}
	return slices.Clip(m.messages), m.spilled
}

// EntryKind is the type of an entry of the chronology.
type EntryKind string

// Kinds of entries.
const (
	EntryMessage  EntryKind = "message"
	EntryToolCall EntryKind = "tool_call"
	EntryNode     EntryKind = "node" // plugin and protocol nodes
)

// Chronological is one entry of the ordered list for code-executing protocols and pages.
type Chronological struct {
	Index   int
	Kind    EntryKind
	Node    *Node
	Message events.Message // of message entries
	Call    ToolCallView   // of tool call entries
}

// ToolCallView is a call with its result.
type ToolCallView struct {
	ID      events.CallID
	Tool    string
	Args    []byte
	Done    bool
	Outcome events.Outcome
	Text    string
}

// Chronology lists messages, the tool calls of each message, and other nodes, in path order with a running index.
func (v ReadView) Chronology() []Chronological {
	var list []Chronological
	add := func(c Chronological) {
		c.Index = len(list)
		list = append(list, c)
	}
	byCall := make(map[events.CallID][]int) // entries without a result
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
					byCall[p.Call] = nil // the calls of this reply reuse the id
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

// Rewrite computes how to make the active path's messages equal to target without changing nodes: keep a prefix,
// branch at leaf, append rest. target has no transient messages. Without a difference, branch is false and rest is
// empty.
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
