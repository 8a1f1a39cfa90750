package api

import "github.com/lash-go/lash/events"

// AppendNode is one node to append: a message, or a node of a plugin or protocol.
type AppendNode struct {
	Message   *events.Message `msgpack:"m,omitempty"` // its id becomes the node's unless it is in use
	Transient bool            `msgpack:"t,omitempty"` // of messages: never stored, neither in the graph nor in views
	Kind      events.NodeKind `msgpack:"k,omitempty"` // of other nodes
	ID        events.NodeID   `msgpack:"i,omitempty"` // of other nodes. Defaults to a new id
	Type      string          `msgpack:"y,omitempty"`
	Body      []byte          `msgpack:"b,omitempty"` // JSON
}

// AppendNodesRequest appends nodes under the current leaf.
type AppendNodesRequest struct {
	Nodes            []AppendNode  `msgpack:"n,omitempty"`
	RequiresAncestor events.NodeID `msgpack:"r,omitempty"` // must be on the active path; empty: no condition
	IdempotencyKey   string        `msgpack:"k,omitempty"` // the key of this request, instead of [RequestMeta.Key]: a repeat appends nothing
}

// AppendedNodes are the ids in request order and the new leaf.
type AppendedNodes struct {
	IDs  []events.NodeID `msgpack:"i" json:"ids"`
	Leaf events.NodeID   `msgpack:"l,omitempty" json:"leaf"`
}

// RewriteMessage is a message of a rewritten history.
type RewriteMessage struct {
	Message   events.Message `msgpack:"m"`
	Transient bool           `msgpack:"t,omitempty"`
}
