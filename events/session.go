package events

import (
	"errors"
	"fmt"
)

// Config is what a session runs with. Changes replace it whole.
type Config struct {
	Provider        string `msgpack:"p,omitempty"` // provider id; empty takes the node's default
	Model           string `msgpack:"m,omitempty"`
	Effort          string `msgpack:"e,omitempty"` // reasoning effort as the provider spells it
	MaxOutputTokens int64  `msgpack:"o,omitempty"` // a reply; 0 leaves it to the provider
	ContextWindow   int64  `msgpack:"w,omitempty"` // tokens; 0 means unknown
	MaxIterations   int64  `msgpack:"n,omitempty"` // model calls a turn; 0 means no limit
	Protocol        string `msgpack:"r,omitempty"` // what a model's reply means; empty is "standard", tool calling
	RetainMillis    int64  `msgpack:"d,omitempty"` // after the last event the session is erased; 0 leaves it to the node, negative keeps it for ever

	Instructions string   `msgpack:"i,omitempty"` // the system prompt, before what plugins contribute; at most [MaxInstructionsBytes]
	Sampling     Sampling `msgpack:"s,omitempty"`

	Layers []PromptLayer `msgpack:"l,omitempty"` // of the prompt's template, in order

	Fallbacks []Fallback `msgpack:"f,omitempty"` // asked in order where a model call fails in a way that another model may not; up to [MaxFallbacks]
}

// ForkedFrom says which history a session began as a copy of.
type ForkedFrom struct {
	Session SessionID `msgpack:"s"`
	Leaf    NodeID    `msgpack:"l,omitempty"`
	Seq     Seq       `msgpack:"q"`
}

// IsZero reports whether the session is no fork.
func (f ForkedFrom) IsZero() bool { return f == ForkedFrom{} }

// SessionOpened is the first event of every history. Expected sequence 0 makes creation a compare-and-set.
type SessionOpened struct {
	Config  Config            `msgpack:"c"`
	Parent  SessionID         `msgpack:"p,omitempty"`
	Forked  ForkedFrom        `msgpack:"f,omitempty"`
	Labels  map[string]string `msgpack:"l,omitempty"`
	Commits int64             `msgpack:"n,omitempty"` // how many more commits of initial nodes follow; until then no turn starts

	Relation Relation          `msgpack:"r,omitempty"`
	Options  map[string]string `msgpack:"o,omitempty"` // JSON for plugins, by plugin id
	First    Message           `msgpack:"t,omitempty"` // input of the first turn, for whoever takes it
	Access   ToolAccess        `msgpack:"a,omitempty"`
	Subagent Subagent          `msgpack:"g,omitempty"`
	Usage    string            `msgpack:"u,omitempty"` // the ledger's source in the parent. Empty is "child"
	Owner    string            `msgpack:"w,omitempty"` // the caller that made it, or its parent's or source's owner. Empty: only callers that reach every session reach it

	Base BlobRef `msgpack:"b,omitempty"` // of a copy: what it begins with, see FORMAT.md
}

// Relation is what a session is to its parent.
type Relation string

// The relations. The zero value is a session without a parent.
const (
	RelationRoot    Relation = ""
	RelationChild   Relation = "child"
	RelationHandoff Relation = "handoff"
)

// ToolAccess restricts the tools of a session (host specification 6.8).
type ToolAccess struct {
	Tools  []string `msgpack:"t,omitempty"` // where not empty, the only ones
	Hidden []string `msgpack:"h,omitempty"` // beats everything
}

// IsZero reports whether nothing is restricted.
func (a ToolAccess) IsZero() bool { return len(a.Tools) == 0 && len(a.Hidden) == 0 }

// Subagent says as what a child session was made (host specification 2.7).
type Subagent struct {
	Capability string `msgpack:"c"`
	Depth      int64  `msgpack:"d"` // a root's child has 1
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
	if c.MaxOutputTokens < 0 || c.ContextWindow < 0 || c.MaxIterations < 0 {
		return invalid("config", "max_output_tokens, context_window and max_iterations must not be negative")
	}
	if len(c.Protocol) > MaxIDBytes || len(c.Provider) > MaxIDBytes || len(c.Model) > MaxIDBytes || len(c.Effort) > MaxIDBytes {
		return invalid("config", fmt.Sprintf("protocol, provider, model and effort have at most %d bytes", MaxIDBytes))
	}
	if n := len(c.Instructions); n > MaxInstructionsBytes {
		return &FieldError{Field: "config.instructions", Reason: fmt.Sprintf("has %d bytes, limit is %d", n, MaxInstructionsBytes), Err: ErrTooLarge}
	}
	if err := validateLayers("config.layers", c.Layers); err != nil {
		return err
	}
	if err := validateFallbacks("config.fallbacks", c.Fallbacks); err != nil {
		return err
	}
	return c.Sampling.Validate("config.sampling")
}

// SessionFirstInputTaken gives the first turn's input to whoever took it: one taker, once.
type SessionFirstInputTaken struct {
	By string `msgpack:"b,omitempty"`
}

// Validate implements [Payload].
func (p *SessionFirstInputTaken) Validate() error { return checkID("by", p.By, false) }

// SessionConfigured replaces the configuration.
type SessionConfigured struct {
	Config Config `msgpack:"c"`
	Key    string `msgpack:"k,omitempty"` // idempotency key of the request, by earlier versions; see [Commit]
}

// Validate implements [Payload].
func (p *SessionConfigured) Validate() error {
	if err := checkID("key", p.Key, false); err != nil {
		return err
	}
	return p.Config.validate()
}

// SessionClosed ends a session: it takes no more turns, inputs or nodes.
type SessionClosed struct {
	Reason string `msgpack:"r,omitempty"`
}

// Validate implements [Payload].
func (*SessionClosed) Validate() error { return nil }

// NodeKind says what a graph node holds.
type NodeKind string

// The kinds of nodes and the fields of [NewNode] that each uses.
const (
	NodeMessage  NodeKind = "message"  // Message
	NodePlugin   NodeKind = "plugin"   // Type, Body
	NodeProtocol NodeKind = "protocol" // Type, Body
)

// NewNode is a node to be appended below the current leaf.
type NewNode struct {
	ID      NodeID   `msgpack:"i"`
	Kind    NodeKind `msgpack:"k"`
	Message Message  `msgpack:"m,omitempty"`
	Type    string   `msgpack:"t,omitempty"`
	Body    []byte   `msgpack:"b,omitempty"` // JSON
	Blob    BlobRef  `msgpack:"r,omitempty"` // instead of Body when above the inline cap
}

// IsZero reports whether m says nothing, so that nodes of other kinds leave it out.
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

// ValidateNodes checks nodes that stand together, whose ids differ. Errors: [ErrInvalid], [ErrInvalidID].
func ValidateNodes(nodes []NewNode) error {
	seen := make(map[NodeID]bool, len(nodes))
	for i := range nodes {
		if err := nodes[i].validate(); err != nil {
			return fmt.Errorf("nodes[%d]: %w", i, err)
		}
		if seen[nodes[i].ID] {
			return invalid(fmt.Sprintf("nodes[%d].id", i), fmt.Sprintf("%q stands twice", nodes[i].ID))
		}
		seen[nodes[i].ID] = true
	}
	return nil
}

// GraphAppended adds nodes in order, each the child of the one before, the first below the leaf.
type GraphAppended struct {
	Nodes  []NewNode `msgpack:"n"`
	Key    string    `msgpack:"k,omitempty"` // idempotency key of the request
	Digest string    `msgpack:"d,omitempty"` // of the request that has the key, by earlier versions; see [Commit]
}

// Validate implements [Payload].
func (p *GraphAppended) Validate() error {
	if len(p.Nodes) == 0 {
		return invalid("nodes", "is empty")
	}
	if err := errors.Join(checkID("key", p.Key, p.Digest != ""), checkID("digest", p.Digest, false)); err != nil {
		return err
	}
	return ValidateNodes(p.Nodes)
}

// GraphBranched moves the leaf. Nothing is deleted.
type GraphBranched struct {
	Leaf NodeID `msgpack:"l,omitempty"` // empty: before the first node
}

// Validate implements [Payload].
func (p *GraphBranched) Validate() error { return checkID("leaf", string(p.Leaf), false) }

// FrameOpened supersedes the current frame by a new one: a fresh prompt, the same graph.
type FrameOpened struct {
	Frame  FrameID   `msgpack:"f"`
	Reason string    `msgpack:"r"`           // "initial", "continue_as", "compaction" or another
	Keep   NodeID    `msgpack:"k,omitempty"` // nodes of the active path from here on stay visible, after the new frame's own first nodes
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
