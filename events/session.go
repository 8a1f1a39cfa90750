package events

import (
	"fmt"
)

// Config is the configuration of a session. A change replaces it as a whole.
type Config struct {
	Provider        string `msgpack:"p,omitempty"` // provider id; empty takes the node's default
	Model           string `msgpack:"m,omitempty"`
	Effort          string `msgpack:"e,omitempty"` // reasoning effort in the provider's spelling
	MaxOutputTokens int64  `msgpack:"o,omitempty"` // of one reply; 0 leaves it to the provider
	ContextWindow   int64  `msgpack:"w,omitempty"` // tokens; 0 means unknown
	MaxIterations   int64  `msgpack:"n,omitempty"` // model calls of one turn; 0 means no limit
	Protocol        string `msgpack:"r,omitempty"` // how replies are read; empty is [StandardProtocol]
	RetainMillis    int64  `msgpack:"d,omitempty"` // time after the last event until the session is erased; 0 leaves it to the node, negative keeps it forever
	SilenceMillis   int64  `msgpack:"q,omitempty"` // longest wait for content of a model's reply; 0 leaves it to the node
	Environment     string `msgpack:"v,omitempty"` // where commands and code run, by the name that the operators of nodes gave it; empty is [DefaultEnvironment]

	Instructions string   `msgpack:"i,omitempty"` // system prompt, before the contributions of plugins; at most [MaxInstructionsBytes]
	Sampling     Sampling `msgpack:"s,omitempty"`

	Layers []PromptLayer `msgpack:"l,omitempty"` // of the prompt's template, in order

	Fallbacks []Fallback `msgpack:"f,omitempty"` // models to call, in order, after failures that another model may not have; at most [MaxFallbacks]
}

// StandardProtocol is the protocol of a configuration that names none: tool calling.
const StandardProtocol = "standard"

// DefaultEnvironment is the execution environment of a configuration that names none.
const DefaultEnvironment = "default"

// ForkedFrom identifies the history that a session started as a copy of.
type ForkedFrom struct {
	Session SessionID `msgpack:"s"`
	Leaf    NodeID    `msgpack:"l,omitempty"`
	Seq     Seq       `msgpack:"q"`
}

// IsZero reports whether the session is no fork.
func (f ForkedFrom) IsZero() bool { return f == ForkedFrom{} }

// SessionOpened is the first event of every history. The expected sequence 0 makes creation a compare-and-set.
type SessionOpened struct {
	Config  Config            `msgpack:"c"`
	Parent  SessionID         `msgpack:"p,omitempty"`
	Forked  ForkedFrom        `msgpack:"f,omitempty"`
	Labels  map[string]string `msgpack:"l,omitempty"`
	Commits int64             `msgpack:"n,omitempty"` // number of further commits with initial nodes; until then no turn starts

	Relation Relation          `msgpack:"r,omitempty"`
	Options  map[string]string `msgpack:"o,omitempty"` // JSON by plugin id
	First    Message           `msgpack:"t,omitempty"` // input of the first turn, see [SessionFirstInputTaken]
	Access   ToolAccess        `msgpack:"a,omitempty"`
	Subagent Subagent          `msgpack:"g,omitempty"`
	Usage    string            `msgpack:"u,omitempty"` // source name in the parent's ledger. Empty means "child"
	Owner    string            `msgpack:"w,omitempty"` // caller that created the session, or the owner of its parent or source. Empty: only callers with access to all sessions

	Base BlobRef `msgpack:"b,omitempty"` // of a copy: its initial content, see FORMAT.md
}

// Relation is the relation of a session to its parent.
type Relation string

// Relations. The zero value is a session without a parent.
const (
	RelationRoot    Relation = ""
	RelationChild   Relation = "child"
	RelationHandoff Relation = "handoff"
)

// ToolAccess restricts the tools of a session.
type ToolAccess struct {
	Tools  []string `msgpack:"t,omitempty"` // the only tools; empty means all
	Hidden []string `msgpack:"h,omitempty"` // hidden tools; takes precedence over Tools and overrides
}

// IsZero reports whether there is no restriction.
func (a ToolAccess) IsZero() bool { return len(a.Tools) == 0 && len(a.Hidden) == 0 }

// Subagent describes a child session that works as a subagent.
type Subagent struct {
	Capability string `msgpack:"c"`
	Depth      int64  `msgpack:"d"` // 1 for a child of a root session
	MaxDepth   int64  `msgpack:"m"`
}

// IsZero reports whether the session is no subagent.
func (a Subagent) IsZero() bool { return a == Subagent{} }

// Validate implements [Payload].
func (p *SessionOpened) Validate() error {
	if p.Parent != "" {
		if err := CheckToken("parent", p.Parent); err != nil {
			return err
		}
	}
	if p.Commits < 0 {
		return invalid("commits", "is negative")
	}
	switch p.Relation {
	case RelationRoot, RelationChild, RelationHandoff:
	default:
		return invalid("relation", fmt.Sprintf("unknown %q", p.Relation))
	}
	if p.Relation != RelationRoot && p.Parent == "" {
		return invalid("parent", "is empty, but the relation needs one")
	}
	if !p.First.IsZero() {
		if err := p.First.Validate(); err != nil {
			return fmt.Errorf("first: %w", err)
		}
	}
	if p.Owner != "" {
		if err := CheckToken("owner", p.Owner); err != nil {
			return err
		}
	}
	if !p.Base.IsZero() {
		if p.Forked.IsZero() {
			return invalid("base", "is set, but nothing says what it is a copy of")
		}
		if err := p.Base.Validate("base"); err != nil {
			return err
		}
	}
	return p.Config.validate()
}

func (c Config) validate() error {
	if c.MaxOutputTokens < 0 || c.ContextWindow < 0 || c.MaxIterations < 0 || c.SilenceMillis < 0 {
		return invalid("config", "max_output_tokens, context_window, max_iterations and silence_ms must not be negative")
	}
	if len(c.Protocol) > MaxIDBytes || len(c.Provider) > MaxIDBytes || len(c.Model) > MaxIDBytes || len(c.Effort) > MaxIDBytes {
		return invalid("config", fmt.Sprintf("protocol, provider, model and effort have at most %d bytes", MaxIDBytes))
	}
	if c.Environment != "" {
		if err := CheckToken("config.environment", c.Environment); err != nil {
			return err
		}
	}
	if n := len(c.Instructions); n > MaxInstructionsBytes {
		return tooLarge("config.instructions", n, MaxInstructionsBytes)
	}
	if err := validateLayers("config.layers", c.Layers); err != nil {
		return err
	}
	if err := validateFallbacks("config.fallbacks", c.Fallbacks); err != nil {
		return err
	}
	return c.Sampling.Validate("config.sampling")
}

// SessionFirstInputTaken records that a caller took the first turn's input. It can be taken once.
type SessionFirstInputTaken struct {
	By string `msgpack:"b,omitempty"`
}

// Validate implements [Payload].
func (p *SessionFirstInputTaken) Validate() error { return checkID("by", p.By, false) }

// SessionConfigured replaces the configuration.
type SessionConfigured struct {
	Config    Config `msgpack:"c"`
	Announced bool   `msgpack:"a,omitempty"` // plugins must be notified of the change; it counts as unnotified until [SessionTold]
}

// Validate implements [Payload].
func (p *SessionConfigured) Validate() error { return p.Config.validate() }

// SessionTold records that the session's plugins were notified of a change of the configuration.
type SessionTold struct {
	Of     Seq      `msgpack:"q"` // of the commit with the change
	Worker WorkerID `msgpack:"w"` // worker that notified them
}

// Validate implements [Payload].
func (p *SessionTold) Validate() error {
	if p.Of < 1 {
		return invalid("of", fmt.Sprintf("is %d, want 1 or more", p.Of))
	}
	return CheckToken("worker", p.Worker)
}

// SessionClosed ends a session: it accepts no more turns, inputs or nodes.
type SessionClosed struct {
	Reason string `msgpack:"r,omitempty"`
}

// Validate implements [Payload].
func (*SessionClosed) Validate() error { return nil }

// NodeKind is the type of a graph node.
type NodeKind string

// Kinds of nodes and the fields of [NewNode] that each uses.
const (
	NodeMessage  NodeKind = "message"  // Message
	NodePlugin   NodeKind = "plugin"   // Type, Body
	NodeProtocol NodeKind = "protocol" // Type, Body
)

// NewNode is a node to append below the current leaf.
type NewNode struct {
	ID      NodeID   `msgpack:"i"`
	Kind    NodeKind `msgpack:"k"`
	Message Message  `msgpack:"m,omitempty"`
	Type    string   `msgpack:"t,omitempty"`
	Body    []byte   `msgpack:"b,omitempty"` // JSON
	Blob    BlobRef  `msgpack:"r,omitempty"` // replaces Body above the inline limit
}

// IsZero reports whether m is empty. Nodes of other kinds leave it out.
func (m Message) IsZero() bool {
	return m.ID == "" && m.Role == "" && len(m.Parts) == 0 && m.Origin == "" && m.Stop == ""
}

func (n *NewNode) validate() error {
	if err := checkID("node.id", string(n.ID), true); err != nil {
		return err
	}
	switch n.Kind {
	case NodeMessage:
		return n.Message.Validate()
	case NodePlugin, NodeProtocol:
		return checkID("node.type", n.Type, true)
	}
	return invalid("node.kind", fmt.Sprintf("unknown %q", n.Kind))
}

// Validate checks roles and parts.
func (m *Message) Validate() error {
	switch m.Role {
	case RoleUser, RoleAssistant, RoleSystem:
	default:
		return invalid("message.role", fmt.Sprintf("unknown %q", m.Role))
	}
	if err := checkID("message.id", string(m.ID), false); err != nil {
		return err
	}
	return validateParts(m.Parts)
}

func validateParts(parts []Part) error {
	for i := range parts {
		switch parts[i].Kind {
		case PartText, PartReasoning, PartToolCall, PartToolResult, PartAttachment:
		default:
			return invalid(fmt.Sprintf("parts[%d].kind", i), fmt.Sprintf("unknown %q", parts[i].Kind))
		}
		if err := validateOutcome(parts[i].Outcome); err != nil {
			return err
		}
	}
	return nil
}

// ValidateNodes checks a list of nodes, whose ids must differ. Errors: [ErrInvalid], [ErrInvalidID].
func ValidateNodes(nodes []NewNode) error {
	seen := make(map[NodeID]bool, len(nodes))
	for i := range nodes {
		if err := nodes[i].validate(); err != nil {
			return fmt.Errorf("nodes[%d]: %w", i, err)
		}
		if seen[nodes[i].ID] {
			return invalid(fmt.Sprintf("nodes[%d].id", i), fmt.Sprintf("%q occurs twice", nodes[i].ID))
		}
		seen[nodes[i].ID] = true
	}
	return nil
}

// GraphAppended adds nodes in order: the first below the leaf, each other below the one before.
type GraphAppended struct {
	Nodes []NewNode `msgpack:"n"`
	Key   string    `msgpack:"k,omitempty"` // idempotency key of the request
}

// Validate implements [Payload].
func (p *GraphAppended) Validate() error {
	if len(p.Nodes) == 0 {
		return invalid("nodes", "is empty")
	}
	if err := checkID("key", p.Key, false); err != nil {
		return err
	}
	return ValidateNodes(p.Nodes)
}

// GraphBranched moves the leaf. It deletes no nodes.
type GraphBranched struct {
	Leaf NodeID `msgpack:"l,omitempty"` // empty means before the first node
}

// Validate implements [Payload].
func (p *GraphBranched) Validate() error { return checkID("leaf", string(p.Leaf), false) }

// FrameOpened replaces the current frame by a new one: a new prompt over the same graph.
type FrameOpened struct {
	Frame  FrameID   `msgpack:"f"`
	Reason string    `msgpack:"r"`           // "initial", "continue_as", "compaction" or another
	Keep   NodeID    `msgpack:"k,omitempty"` // nodes of the active path from this one on stay visible, after the new frame's own first nodes
	Nodes  []NewNode `msgpack:"n,omitempty"` // the frame's first nodes
}

// Validate implements [Payload].
func (p *FrameOpened) Validate() error {
	if err := checkID("frame", string(p.Frame), true); err != nil {
		return err
	}
	if err := checkID("keep", string(p.Keep), false); err != nil {
		return err
	}
	return ValidateNodes(p.Nodes)
}
