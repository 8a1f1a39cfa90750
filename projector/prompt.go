package projector

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"

	"github.com/lash-go/lash/events"
)

// Prompt is what a model is asked, before a provider gives it its wire form.
type Prompt struct {
	Ref      events.PromptRef
	Config   events.Config
	Messages []events.Message   // visible in the frame; every call directly followed by its result
	Tools    []events.ToolEntry // callable ones, by name
}

// Prompt builds the prompt at the leaf, in the current frame.
func (s *State) Prompt() (Prompt, error) {
	path, err := s.Path()
	if err != nil {
		return Prompt{}, err
	}
	frame := s.Frame()
	p := Prompt{Config: s.Config, Messages: closeCalls(s.visible(path, frame)), Tools: s.Catalog.callable()}
	p.Ref = events.PromptRef{Leaf: s.Leaf, Catalog: s.Catalog.Generation, Config: s.ConfigSeq}
	if len(s.Frames) > 1 {
		p.Ref.Frame = frame.ID
	}
	p.Ref.Digest = promptDigest(s.Config, s.Catalog.Digest, frame, path)
	return p, nil
}

// promptDigest binds a prompt to everything it was built from: the
// configuration, the catalogue, the frame and every message of the path.
func promptDigest(config events.Config, catalog string, frame Frame, path []*Node) string {
	sum := sha256.New()
	for _, s := range []string{digestOf(config), catalog, string(frame.ID), string(frame.Keep), chainDigest(path)} {
		writeField(sum, s)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// chainDigest is a hash chain along the path, so that one more message costs
// one more step however long the path is. Each node remembers its link; a
// node has one parent, so it has one link.
func chainDigest(path []*Node) string {
	start := len(path)
	for start > 0 && path[start-1].chain == "" {
		start--
	}
	link := "root"
	if start > 0 {
		link = path[start-1].chain
	}
	for _, n := range path[start:] {
		if n.Kind == events.NodeMessage {
			sum := sha256.New()
			writeField(sum, link)
			writeField(sum, string(n.Frame))
			writeField(sum, digestOf(n.Message))
			link = hex.EncodeToString(sum.Sum(nil))
		}
		n.chain = link
	}
	return link
}

func writeField(h hash.Hash, s string) {
	fmt.Fprintf(h, "%d:", len(s))
	h.Write([]byte(s))
}

// visible is what the frame shows of a path: its own nodes, and before those
// that came after its opening, the kept ones. Messages only, the first of equal ids.
func (s *State) visible(path []*Node, frame Frame) []*Node {
	if len(s.Frames) <= 1 {
		return messages(path)
	}
	initial := s.Frames[0].ID
	var kept, own []*Node
	keeping := false
	for _, n := range path {
		in := n.Frame == frame.ID || (n.Frame == "" && frame.ID == initial)
		switch {
		case in:
			own = append(own, n)
		case frame.Keep != "" && (keeping || n.ID == frame.Keep):
			keeping = true
			kept = append(kept, n)
		}
	}
	seeds := min(int(frame.Seeds), len(own))
	list := append(append(append([]*Node{}, own[:seeds]...), kept...), own[seeds:]...)
	return messages(list)
}

func messages(path []*Node) []*Node {
	seen := make(map[events.MessageID]bool, len(path))
	list := make([]*Node, 0, len(path))
	for _, n := range path {
		if n.Kind != events.NodeMessage || seen[n.Message.ID] {
			continue
		}
		seen[n.Message.ID] = true
		list = append(list, n)
	}
	return list
}

// UnansweredText stands in a prompt for the result of a call that never got one on this path.
const UnansweredText = "[no result] The call was never answered."

// closeCalls orders messages as providers demand: each reply with calls is
// directly followed by one message with a result for each, whatever was
// appended in between, and results without a call are left out. An orphan
// would make the provider refuse every later prompt of the session.
func closeCalls(nodes []*Node) []events.Message {
	list := make([]events.Message, 0, len(nodes))
	used := make(map[events.NodeID]int) // results consumed, by node
	for i, n := range nodes {
		m := n.Message
		if calls := toolCalls(m); len(calls) > 0 {
			list = append(list, m, resultsFor(calls, nodes[i+1:], used))
			continue
		}
		if rest := withoutResults(m); len(rest.Parts) > 0 || len(m.Parts) == 0 {
			list = append(list, rest)
		}
	}
	return list
}

func toolCalls(m events.Message) []events.Part {
	var calls []events.Part
	for _, p := range m.Parts {
		if p.Kind == events.PartToolCall && m.Role == events.RoleAssistant {
			calls = append(calls, p)
		}
	}
	return calls
}

func resultsFor(calls []events.Part, later []*Node, used map[events.NodeID]int) events.Message {
	out := events.Message{Role: events.RoleUser}
	for _, call := range calls {
		out.Parts = append(out.Parts, resultFor(call, later, used, &out)...)
	}
	return out
}

// resultFor finds the first result of the call that no earlier call took, with the attachments behind it.
func resultFor(call events.Part, later []*Node, used map[events.NodeID]int, out *events.Message) []events.Part {
	for _, n := range later {
		if len(toolCalls(n.Message)) > 0 {
			break // a later reply's results are its own
		}
		parts := n.Message.Parts
		for i := used[n.ID]; i < len(parts); i++ {
			if parts[i].Kind != events.PartToolResult || parts[i].Call != call.Call {
				continue
			}
			end := i + 1
			for end < len(parts) && parts[end].Kind == events.PartAttachment {
				end++
			}
			used[n.ID] = end
			if out.ID == "" {
				out.ID = n.Message.ID
			}
			return parts[i:end]
		}
	}
	return []events.Part{{
		Kind: events.PartToolResult, Call: call.Call, Tool: call.Tool,
		Text: UnansweredText, Outcome: events.OutcomeCancelled,
	}}
}

// withoutResults strips tool results and the attachments behind them: closeCalls has moved them.
func withoutResults(m events.Message) events.Message {
	if len(m.Parts) == 0 || m.Role != events.RoleUser {
		return m
	}
	var parts []events.Part
	inResult := false
	for _, p := range m.Parts {
		switch {
		case p.Kind == events.PartToolResult:
			inResult = true
		case p.Kind == events.PartAttachment && inResult:
		default:
			inResult = false
			parts = append(parts, p)
		}
	}
	m.Parts = parts
	return m
}

func (c *Catalog) callable() []events.ToolEntry {
	list := make([]events.ToolEntry, 0, len(c.Tools))
	for i := range c.Tools {
		if c.Tools[i].Callable() {
			list = append(list, c.Tools[i])
		}
	}
	return list
}
