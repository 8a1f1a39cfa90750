package api

import "github.com/lash-go/lash/events"

// AppendNode is one thing to append: a message, or a plugin's or protocol's node.
type AppendNode struct {
	Message   *events.Message `msgpack:"m,omitempty"` // its id becomes the node's where that is free
	Transient bool            `msgpack:"t,omitempty"` // of messages: never kept, neither in the graph nor in views
	Kind      events.NodeKind `msgpack:"k,omitempty"` // of other nodes
	ID        events.NodeID   `msgpack:"i,omitempty"` // of other nodes; a new one when empty
	Type      string          `msgpack:"y,omitempty"`
	Body      []byte          `msgpack:"b,omitempty"` // JSON
}

// AppendNodesRequest appends under the current leaf (host specification 1.4).
type AppendNodesRequest struct {
	Nodes            []AppendNode  `msgpack:"n,omitempty"`
	RequiresAncestor events.NodeID `msgpack:"r,omitempty"` // must be on the active path; empty asks nothing
	IdempotencyKey   string        `msgpack:"k,omitempty"` // of this request, in place of the door's: a repeat appends nothing, see [Asked]
}

// AppendedNodes are the ids in request order and the new leaf.
type AppendedNodes struct {
	IDs  []events.NodeID `msgpack:"i"`
	Leaf events.NodeID   `msgpack:"l,omitempty"`
}

// RewriteMessage is a message of a rewritten history.
type RewriteMessage struct {
	Message   events.Message `msgpack:"m"`
	Transient bool           `msgpack:"t,omitempty"`
}
