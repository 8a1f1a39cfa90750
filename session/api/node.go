package api

import "github.com/lash-go/lash/events"

// AppendNode is one thing to append: a message, or a plugin's or protocol's node.
type AppendNode struct {
	Message   *events.Message // its id becomes the node's where that is free
	Transient bool            // of messages: never kept, neither in the graph nor in views
	Kind      events.NodeKind // of other nodes
	ID        events.NodeID   // of other nodes; a new one when empty
	Type      string
	Body      []byte // JSON
}

// AppendNodesRequest appends under the current leaf (host specification 1.4).
type AppendNodesRequest struct {
	Nodes            []AppendNode
	RequiresAncestor events.NodeID // must be on the active path; empty asks nothing
	IdempotencyKey   string        // the same key appends once
}

// AppendedNodes are the ids in request order and the new leaf.
type AppendedNodes struct {
	IDs  []events.NodeID
	Leaf events.NodeID
}

// RewriteMessage is a message of a rewritten history.
type RewriteMessage struct {
	events.Message
	Transient bool
}
