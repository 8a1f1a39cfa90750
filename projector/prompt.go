package projector

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"

	"github.com/lash-go/lash/events"
)

// Prompt is the input of a model call, before a provider converts it.
type Prompt struct {
	Ref      events.PromptRef
	Config   events.Config      // with the settings of the running turn
	Messages []events.Message   // visible in the frame; the results of every call follow it directly
	System   string             // instructions and contributions of plugins; precedes the messages
	Tools    []events.ToolEntry // callable tools, by name; shared with the state, the receiver must not change them
	Spilled  bool               // the body of some part is in a blob
}

// Prompt builds the prompt at the leaf, in the current frame.
func (s *State) Prompt() (Prompt, error) {
	path, err := s.Path()
	if err != nil {
		return Prompt{}, err
	}
	frame := s.Frame()
	p := Prompt{Config: s.generated(s.Config), Tools: s.Catalog.callable()}
	nodes := s.visible(path, frame)
	t := s.Turn()
	if t != nil && t.Viewed {
		p.Messages = closeCalls(messages(applyView(nodes, t)))
		p.Spilled = spilled(p.Messages)
	} else {
		p.Messages, p.Spilled = s.body.prompt(frame.ID, nodes)
	}
	var chain string
	chain, p.System = s.bound(s.body.chainDigest(path), &s.Catalog, &p.Config)
	p.Ref = events.PromptRef{Leaf: s.Leaf, Catalog: s.Catalog.Generation, Config: s.ConfigSeq}
	if len(s.Frames) > 1 {
		p.Ref.Frame = frame.ID
	}
	p.Ref.Digest = promptDigest(p.Config, s.Catalog.Digest, frame, chain)
	return p, nil
}

// generated is a configuration with the settings of the running turn.
func (s *State) generated(c events.Config) events.Config {
	if t := s.Turn(); t != nil {
		return t.Fallback.Over(t.Input.Over(c))
	}
	return c
}

// bound adds to the hash of a path what a prompt has besides its nodes: the running turn's view, and the system text, which it
// also returns.
func (s *State) bound(chain string, catalog *Catalog, config *events.Config) (bound, system string) {
	if t := s.Turn(); t != nil && t.Viewed {
		chain = hexSum(appendField(appendField(nil, chain), encodedDigest(events.TurnPrepared{Upto: t.Upto, View: t.View})))
	}
	if system = s.system(catalog, config); system != "" {
		chain = hexSum(appendField(appendField(nil, chain), system))
	}
	return chain, system
}

// promptDigest hashes everything that a prompt is built from: configuration, catalogue, frame and every message of
// the path.
func promptDigest(config events.Config, catalog string, frame Frame, chain string) string {
	b := make([]byte, 0, 512)
	if config.Protocol != "" {
		chain = hexSum(appendField(appendField(nil, chain), config.Protocol))
	}
	if !config.Sampling.IsZero() {
		chain = hexSum(appendField(appendField(nil, chain), encodedDigest(config.Sampling)))
	}
	for _, s := range []string{config.Provider, config.Model, config.Effort, catalog, string(frame.ID), string(frame.Keep), chain} {
		b = appendField(b, s)
	}
	for _, n := range []int64{config.MaxOutputTokens, config.ContextWindow, config.MaxIterations} {
		b = binary.AppendVarint(b, n)
	}
	return hexSum(b)
}

// chainDigest is a hash chain along the path, so that a new message costs one step. The links of the cached path are
// stored with the path, not in the nodes, because clones share the nodes.
func (b *stateBody) chainDigest(path []*Node) string {
	var links []string
	if b.path != nil {
		links = b.links
	}
	link := "root"
	if len(links) > 0 {
		link = links[len(links)-1]
	}
	var scratch []byte
	for _, n := range path[len(links):] {
		if n.Kind == events.NodeMessage {
			scratch = appendField(slices.Grow(scratch[:0], int(n.Bytes())+1<<10), link)
			scratch = appendField(scratch, string(n.Frame))
			scratch = appendMessage(scratch, &n.Message)
			link = hexSum(scratch)
		}
		links = append(links, link)
	}
	if b.path != nil {
		b.links = links
	}
	return link
}

// appendMessage encodes a message without ambiguity, see "Prompt digests" in FORMAT.md of package events.
func appendMessage(b []byte, m *events.Message) []byte {
	b = appendField(b, string(m.ID))
	b = appendField(b, string(m.Role))
	b = appendField(b, m.Origin)
	b = appendField(b, string(m.Stop))
	b = binary.AppendUvarint(b, uint64(len(m.Parts)))
	for i := range m.Parts {
		p := &m.Parts[i]
		b = appendField(b, string(p.Kind))
		b = appendField(b, p.Text)
		b = appendField(b, p.Blob.Digest)
		b = appendField(b, string(p.Call))
		b = appendField(b, p.Tool)
		b = appendField(b, p.Args)
		b = appendField(b, string(p.Outcome))
		b = appendField(b, p.MediaType)
		b = appendField(b, p.Meta)
	}
	return b
}

func appendField[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// visible are the nodes of a path that the frame shows: its own nodes, with the kept nodes after its initial ones.
func (s *State) visible(path []*Node, frame Frame) []*Node {
	if len(s.Frames) <= 1 {
		return path
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
	return slices.Concat(own[:seeds], kept, own[seeds:])
}

// messageMemo caches the messages of the beginning of a path, so that the next prompt or view costs only the new ones. That of
// prompts ends where calls have no results yet: later events cannot change what is before.
type messageMemo struct {
	frame    events.FrameID
	nodes    int   // number of nodes whose messages are cached
	last     *Node // the last of these nodes; it identifies the path
	seen     map[events.MessageID]bool
	messages []events.Message // append-only, because prompts and views share it
	spilled  bool             // the body of some node is in a blob
}

// keep empties the memo, unless it is of the beginning of these nodes.
func (m *messageMemo) keep(frame events.FrameID, nodes []*Node) {
	if m.seen == nil || m.frame != frame || m.nodes > len(nodes) || m.nodes > 0 && nodes[m.nodes-1] != m.last {
		*m = messageMemo{frame: frame, seen: make(map[events.MessageID]bool)}
	}
}

// prompt returns the messages of the visible nodes, and whether some body is in a blob.
func (b *stateBody) prompt(frame events.FrameID, visible []*Node) ([]events.Message, bool) {
	m := &b.memo
	m.keep(frame, visible)
	rest := visible[m.nodes:]
	shown := unseenMessages(rest, m.seen)
	if k := countSettled(shown); k > 0 {
		closed := closeCalls(shown[:k])
		m.messages, m.spilled = append(m.messages, closed...), m.spilled || spilled(closed)
		m.last = shown[k-1]
		m.nodes += slices.Index(rest, m.last) + 1
		for _, n := range shown[:k] {
			m.seen[n.Message.ID] = true
		}
		shown = shown[k:]
	}
	if len(shown) == 0 {
		return slices.Clip(m.messages), m.spilled
	}
	open := closeCalls(shown)
	return slices.Concat(m.messages, open), m.spilled || spilled(open)
}

func spilled(messages []events.Message) bool {
	for i := range messages {
		if spilledParts(messages[i].Parts) {
			return true
		}
	}
	return false
}

func spilledNode(n *Node) bool { return !n.Blob.IsZero() || spilledParts(n.Message.Parts) }

func spilledParts(parts []events.Part) bool {
	for i := range parts { // by index, because parts are large
		if !parts[i].Blob.IsZero() {
			return true
		}
	}
	return false
}

// countSettled counts the leading nodes after which every call has its result. No message occurs twice in nodes.
func countSettled(nodes []*Node) int {
	open := make(map[events.CallID]int)
	k := 0
	for i, n := range nodes {
		for j := range n.Message.Parts {
			switch p := &n.Message.Parts[j]; {
			case p.Kind == events.PartToolCall && n.Message.Role == events.RoleAssistant:
				open[p.Call]++
			case p.Kind != events.PartToolResult || n.Message.Role != events.RoleUser:
			case open[p.Call] > 1:
				open[p.Call]--
			default:
				delete(open, p.Call)
			}
		}
		if len(open) == 0 {
			k = i + 1
		}
	}
	return k
}

// messages returns the message nodes. Of equal message ids it returns the first.
func messages(path []*Node) []*Node { return unseenMessages(path, nil) }

// unseenMessages returns the message nodes whose message ids are not in seen. Of equal ids it returns the first.
func unseenMessages(path []*Node, seen map[events.MessageID]bool) []*Node {
	list := make([]*Node, 0, len(path))
	now := make(map[events.MessageID]bool, len(path))
	for _, n := range path {
		if n.Kind != events.NodeMessage || seen[n.Message.ID] || now[n.Message.ID] {
			continue
		}
		now[n.Message.ID] = true
		list = append(list, n)
	}
	return list
}

// unansweredText is the result text in a prompt of a call without a result on this path.
const unansweredText = "[no result] The call was never answered."

// closeCalls orders messages as providers require: one message with the results of all calls directly follows each
// reply with calls. Results without a call are left out, because providers refuse every prompt that contains one.
func closeCalls(nodes []*Node) []events.Message {
	list := make([]events.Message, 0, len(nodes))
	answers := resultsByCall(nodes)
	for i, n := range nodes {
		if own := ownParts(n.Message); len(own.Parts) > 0 || len(n.Message.Parts) == 0 {
			list = append(list, own)
		}
		if calls := callsAt(i, n); len(calls) > 0 {
			list = append(list, resultsOf(nodes, calls, answers))
		}
	}
	return list
}

// partIndex identifies a part of a message in a list of nodes.
type partIndex struct{ node, part int }

func callsAt(i int, n *Node) []partIndex {
	var calls []partIndex
	for j := range n.Message.Parts {
		if n.Message.Parts[j].Kind == events.PartToolCall && n.Message.Role == events.RoleAssistant {
			calls = append(calls, partIndex{i, j})
		}
	}
	return calls
}

// resultsByCall finds the result of each call. Ids repeat: within a reply, results follow the order of calls. The calls of
// a later reply take over the ids of an earlier one.
func resultsByCall(nodes []*Node) map[partIndex]partIndex {
	open := make(map[events.CallID][]partIndex)
	found := make(map[partIndex]partIndex)
	for i, n := range nodes {
		for _, at := range callsAt(i, n) {
			id := n.Message.Parts[at.part].Call
			if list := open[id]; len(list) > 0 && list[0].node != i {
				open[id] = nil
			}
			open[id] = append(open[id], at)
		}
		for j := range n.Message.Parts {
			p := &n.Message.Parts[j]
			if list := open[p.Call]; p.Kind == events.PartToolResult && n.Message.Role == events.RoleUser && len(list) > 0 {
				found[list[0]], open[p.Call] = partIndex{i, j}, list[1:]
			}
		}
	}
	return found
}

// resultsOf is the message with the results of a reply's calls, each with the attachments after it.
func resultsOf(nodes []*Node, calls []partIndex, answers map[partIndex]partIndex) events.Message {
	out := events.Message{Role: events.RoleUser}
	for _, at := range calls {
		answer, ok := answers[at]
		if !ok {
			call := &nodes[at.node].Message.Parts[at.part]
			out.Parts = append(out.Parts, events.Part{
				Kind: events.PartToolResult, Call: call.Call, Tool: call.Tool,
				Text: unansweredText, Outcome: events.OutcomeCancelled,
			})
			continue
		}
		m := &nodes[answer.node].Message
		if out.ID == "" {
			out.ID = m.ID
		}
		end := answer.part + 1
		for end < len(m.Parts) && m.Parts[end].Kind == events.PartAttachment {
			end++
		}
		out.Parts = append(out.Parts, m.Parts[answer.part:end]...)
	}
	return out
}

// ownParts removes parts that closeCalls moves or leaves out: results with their attachments, and calls outside of
// replies.
func ownParts(m events.Message) events.Message {
	var parts []events.Part
	inResult, stripped := false, false
	for _, p := range m.Parts {
		inResult = p.Kind == events.PartToolResult || inResult && p.Kind == events.PartAttachment
		if inResult || p.Kind == events.PartToolCall && m.Role != events.RoleAssistant {
			stripped = true
			continue
		}
		parts = append(parts, p)
	}
	if stripped {
		m.Parts = parts
	}
	return m
}

// callable are the tools that the model may call: the catalogue's own list where it may call all.
func (c *Catalog) callable() []events.ToolEntry {
	other := 0
	for other < len(c.Tools) && c.Tools[other].Callable() {
		other++
	}
	if other == len(c.Tools) {
		return slices.Clip(c.Tools)
	}
	list := append(make([]events.ToolEntry, 0, len(c.Tools)), c.Tools[:other]...)
	for i := other; i < len(c.Tools); i++ {
		if c.Tools[i].Callable() {
			list = append(list, c.Tools[i])
		}
	}
	return list
}
