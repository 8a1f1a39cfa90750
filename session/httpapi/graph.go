package httpapi

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// newNodesJSON are appended under the leaf, all or none.
type newNodesJSON struct {
	Nodes            []givenNodeJSON `json:"nodes"`
	RequiresAncestor events.NodeID   `json:"requires_ancestor,omitempty" jsonschema:"node that must be on the active branch; else the response is 409 stale_branch"`
}

// appendedNodesJSON are the nodes' ids in their order.
type appendedNodesJSON struct {
	IDs  []events.NodeID `json:"ids"`
	Leaf events.NodeID   `json:"leaf"`
}

// branchJSON moves the leaf.
type branchJSON struct {
	Node events.NodeID `json:"node" jsonschema:"node that becomes the leaf; empty: the graph before its first node"`
}

// newFrameJSON opens a frame: an empty prompt over the same graph.
type newFrameJSON struct {
	ID     events.FrameID  `json:"id" jsonschema:"id of the new frame, unique in the session"`
	Reason string          `json:"reason,omitempty"`
	Keep   events.NodeID   `json:"keep,omitempty" jsonschema:"first node of the active branch that stays visible, with all after it; omitted: none"`
	Nodes  []givenNodeJSON `json:"nodes,omitempty"`
}

// openedJSON reports whether a frame was opened.
type openedJSON struct {
	Opened bool `json:"opened" jsonschema:"false: nothing changed. POST /compact: no plugin gave a summary. POST /frames: the session has had a frame with this id"`
}

// viewJSON is the current conversation, in the current frame.
type viewJSON struct {
	Session  events.SessionID  `json:"session"`
	Seq      events.Seq        `json:"seq" jsonschema:"sequence of the last commit in the view: a cursor"`
	Frame    events.FrameID    `json:"frame,omitempty"`
	Config   sessionConfigJSON `json:"config"`
	Messages []messageJSON     `json:"messages"`
	Nodes    []nodeJSON        `json:"nodes" jsonschema:"nodes of the active branch that the frame shows, in order"`
	Standing standingJSON      `json:"standing" jsonschema:"settings and plugin state at this sequence"`
}

// nodeJSON is a node of the graph.
type nodeJSON struct {
	ID      events.NodeID    `json:"id"`
	Kind    events.NodeKind  `json:"kind"`
	Turn    events.TurnID    `json:"turn,omitempty"`
	Message events.MessageID `json:"message,omitempty" jsonschema:"id of the message, of nodes of kind message"`
	Type    string           `json:"type,omitempty" jsonschema:"type of the body, of other nodes"`
	Body    json.RawMessage  `json:"body,omitempty" jsonschema:"JSON, of other nodes"`
	Blob    *blobJSON        `json:"blob,omitempty" jsonschema:"in place of a large body"`
	At      events.Millis    `json:"at_ms"`
}

func getView(c *httpRequest) (reply, error) {
	v, err := c.view()
	if err != nil {
		return reply{}, err
	}
	out := viewJSON{
		Session: v.Session, Seq: v.Seq, Frame: v.Frame.ID, Config: configOf(v.Config), Messages: messages(v.Messages), Nodes: make([]nodeJSON, len(v.Nodes)), Standing: standingOf(&v),
	}
	for i, n := range v.Nodes {
		out.Nodes[i] = nodeOf(n)
	}
	return reply{status: http.StatusOK, body: out}, nil
}

// view is the conversation now, or at the sequence in the request.
func (c *httpRequest) view() (projector.ReadView, error) {
	if !c.URL.Query().Has("at") {
		return c.s.cfg.Service.View(c.Context(), c.session)
	}
	seq, err := c.number("at", math.MaxInt64)
	if err != nil {
		return projector.ReadView{}, err
	}
	return c.s.cfg.Service.ViewAt(c.Context(), c.session, events.Seq(seq))
}

func nodeOf(n *projector.Node) nodeJSON {
	out := nodeJSON{ID: n.ID, Kind: n.Kind, Turn: n.Turn, Message: n.Message.ID, Type: n.Type, Blob: blob(n.Blob), At: n.At}
	if len(n.Body) > 0 {
		out.Body = eventjson.Raw(n.Body)
	}
	return out
}

func (in newNodesJSON) args(c *httpRequest) (api.AppendNodesRequest, error) {
	nodes, err := c.nodes(in.Nodes)
	return api.AppendNodesRequest{Nodes: nodes, RequiresAncestor: in.RequiresAncestor}, err
}

func appended(got api.AppendedNodes) appendedNodesJSON {
	return appendedNodesJSON{IDs: orNone(got.IDs), Leaf: got.Leaf}
}

func (in branchJSON) args(*httpRequest) (events.NodeID, error) { return in.Node, nil }

func (in newFrameJSON) args(c *httpRequest) (req api.FrameRequest, err error) {
	if err := events.CheckToken("id", in.ID); err != nil {
		return req, err
	}
	nodes, err := c.nodes(in.Nodes)
	return api.FrameRequest{Frame: in.ID, Reason: in.Reason, Keep: in.Keep, Nodes: nodes}, err
}

func opened(was bool) openedJSON { return openedJSON{was} }

// rewrittenJSON is the new list of messages of the history.
type rewrittenJSON struct {
	Messages []rewrittenMessageJSON `json:"messages" jsonschema:"messages with the ids that the active branch starts with do not change"`
}

// rewrittenMessageJSON is a message of a rewritten history.
type rewrittenMessageJSON struct {
	ID        events.MessageID `json:"id,omitempty"`
	Role      events.Role      `json:"role"`
	Parts     []givenPartJSON  `json:"parts"`
	Transient bool             `json:"transient,omitempty" jsonschema:"true: never stored"`
}

func (in rewrittenJSON) args(c *httpRequest) ([]api.RewriteMessage, error) {
	target := make([]api.RewriteMessage, len(in.Messages))
	for i, m := range in.Messages {
		target[i] = api.RewriteMessage{Message: events.Message{ID: m.ID, Role: m.Role, Parts: eventParts(m.Parts)}, Transient: m.Transient}
	}
	return target, c.named(len(in.Messages), func(i int) (string, []givenPartJSON) {
		return fmt.Sprintf("messages[%d].parts", i), in.Messages[i].Parts
	})
}
