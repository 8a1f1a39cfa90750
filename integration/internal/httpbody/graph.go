package httpbody

import (
	"encoding/json"

	"github.com/lash-go/lash/events"
)

// NewNodes are appended under the leaf, all or none.
type NewNodes struct {
	Nodes            []GivenNode   `json:"nodes"`
	RequiresAncestor events.NodeID `json:"requires_ancestor,omitempty"`
}

// AppendedNodes are the nodes' ids in their order.
type AppendedNodes struct {
	IDs  []events.NodeID `json:"ids"`
	Leaf events.NodeID   `json:"leaf"`
}

// Branch moves the leaf.
type Branch struct {
	Node events.NodeID `json:"node"`
}

// NewFrame opens a frame: an empty prompt over the same graph.
type NewFrame struct {
	ID     events.FrameID `json:"id"`
	Reason string         `json:"reason,omitempty"`
	Keep   events.NodeID  `json:"keep,omitempty"`
	Nodes  []GivenNode    `json:"nodes,omitempty"`
}

// Opened reports whether a frame was opened.
type Opened struct {
	Opened bool `json:"opened"`
}

// View is the current conversation, in the current frame.
type View struct {
	Session  events.SessionID `json:"session"`
	Seq      events.Seq       `json:"seq"`
	Frame    events.FrameID   `json:"frame,omitempty"`
	Config   SessionConfig    `json:"config"`
	Messages []Message        `json:"messages"`
	From     int              `json:"from"`
	Of       int              `json:"of"`
	Next     int              `json:"next"`
	Nodes    []Node           `json:"nodes"`
	Standing Standing         `json:"standing"`
}

// Node is a node of the graph.
type Node struct {
	ID      events.NodeID    `json:"id"`
	Kind    events.NodeKind  `json:"kind"`
	Turn    events.TurnID    `json:"turn,omitempty"`
	Message events.MessageID `json:"message,omitempty"`
	Type    string           `json:"type,omitempty"`
	Body    json.RawMessage  `json:"body,omitempty"`
	Blob    *Blob            `json:"blob,omitempty"`
	At      events.Millis    `json:"at_ms"`
}
