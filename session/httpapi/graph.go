package httpapi

import (
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/memory"
)

// newNodesJSON are appended under the leaf, all or none.
type newNodesJSON struct {
	Nodes            []givenNodeJSON `json:"nodes"`
	RequiresAncestor events.NodeID   `json:"requires_ancestor,omitempty" jsonschema:"node that must be on the active branch; else the response is 409 stale_branch"`
}

// branchJSON moves the leaf.
type branchJSON struct {
	Node events.NodeID `json:"node" jsonschema:"node that becomes the leaf; empty: the graph before its first node"`
}

// newFrameJSON opens a frame: an empty prompt over the same graph.
type newFrameJSON struct {
	Frame  events.FrameID  `json:"id" jsonschema:"id of the new frame, unique in the session"`
	Reason string          `json:"reason,omitempty"`
	Keep   events.NodeID   `json:"keep,omitempty" jsonschema:"first node of the active branch that stays visible, with all after it; omitted: none"`
	Nodes  []givenNodeJSON `json:"nodes,omitempty"`
}

// openedJSON reports whether a frame was opened.
type openedJSON struct {
	Opened bool `json:"opened" jsonschema:"false: nothing changed. POST /compact: no plugin gave a summary. POST /frames: the session has had a frame with this id"`
}

// viewJSON is a page of the current conversation, in the current frame.
type viewJSON struct {
	Session  events.SessionID  `json:"session"`
	Seq      events.Seq        `json:"seq" jsonschema:"sequence of the last commit in the view: a cursor"`
	Frame    events.FrameID    `json:"frame,omitempty" from:"Frame.ID"`
	Config   sessionConfigJSON `json:"config"`
	Messages []messageJSON     `json:"messages" from:"-" jsonschema:"of the page"`
	From     int               `json:"from" jsonschema:"index of the page's first message in the conversation"`
	Of       int               `json:"of" jsonschema:"messages of the conversation"`
	Next     int               `json:"next,omitempty" jsonschema:"from of the page that follows; omitted: there is none"`
	Nodes    []nodeJSON        `json:"nodes" from:"-" jsonschema:"nodes of the active branch that the frame shows, in order: those of the page's messages, and what follows each"`
	Standing standingJSON      `json:"standing" from:"." jsonschema:"settings and plugin state at this sequence"`
}

// nodeJSON is a node of the graph.
type nodeJSON struct {
	ID      events.NodeID    `json:"id"`
	Kind    events.NodeKind  `json:"kind"`
	Turn    events.TurnID    `json:"turn,omitempty"`
	Message events.MessageID `json:"message,omitempty" from:"Message.ID" jsonschema:"id of the message, of nodes of kind message"`
	Type    string           `json:"type,omitempty" jsonschema:"type of the body, of other nodes"`
	Body    json.RawMessage  `json:"body,omitempty" jsonschema:"JSON, of other nodes"`
	Blob    *blobJSON        `json:"blob,omitempty" jsonschema:"in place of a large body"`
	At      events.Millis    `json:"at_ms"`
}

// viewQuery selects a view, and its page.
type viewQuery struct {
	At    int64 `query:"at"`
	From  int   `query:"from"`
	Limit int   `query:"limit"`
	Last  int   `query:"last"`
}

func getView(c *httpRequest) (reply, error) {
	var in viewQuery
	if err := c.readFields(reflect.ValueOf(&in).Elem()); err != nil {
		return reply{}, err
	}
	if q := c.URL.Query(); q.Has("last") && (q.Has("from") || q.Has("limit")) {
		return reply{}, invalidParam("last", "excludes from and limit")
	}
	v, err := c.view(events.Seq(in.At))
	if err != nil {
		return reply{}, err
	}
	nodes, first, end := viewPage(&v, in.From, in.Limit, in.Last)
	if size := bytesOf(nodes); size > smallBody {
		if err := memory.Take(c.Context(), copiesOfJSON*size); err != nil {
			return reply{}, err
		}
	}
	out := shown(&viewJSON{From: first, Of: len(v.Messages)}, v)
	page := v.Messages[first:end]
	assign(&out.Messages, &page)
	assign(&out.Nodes, &nodes)
	if end < len(v.Messages) {
		out.Next = end
	}
	return reply{status: http.StatusOK, body: out}, nil
}

// maxViewBytes bounds the nodes of a page of a view, in bytes. A page has one message at least.
const maxViewBytes = 4 << 20

// viewPage selects messages of a view, and their nodes: at most limit messages from an index on, or the last ones. 0 is no limit.
func viewPage(v *projector.ReadView, from, limit, last int) (nodes []*projector.Node, first, end int) {
	of := len(v.Messages)
	starts, sizes := make([]int, 0, of+1), make([]int, of) // by message: its first node, and the bytes from there to the next message
	for i, n := range v.Nodes {
		if m := len(starts); m < of && n.Kind == events.NodeMessage && n.Message.ID == v.Messages[m].ID {
			starts = append(starts, i)
		}
		if m := max(len(starts)-1, 0); m < of {
			sizes[m] += int(n.Bytes())
		}
	}
	if of == 0 {
		return v.Nodes, 0, 0
	}
	starts[0] = 0 // what stands before the first message comes with it
	starts = append(starts, len(v.Nodes))
	if last > 0 {
		first, end = of, of
		for bytes := 0; first > 0 && end-first < last; first-- {
			if bytes += sizes[first-1]; bytes > maxViewBytes && first < end {
				break
			}
		}
		return v.Nodes[starts[first]:starts[end]], first, end
	}
	first, end = min(from, of), min(from, of)
	for bytes := 0; end < of && (limit == 0 || end-first < limit); end++ {
		if bytes += sizes[end]; bytes > maxViewBytes && end > first {
			break
		}
	}
	return v.Nodes[starts[first]:starts[end]], first, end
}

func bytesOf(nodes []*projector.Node) (n int64) {
	for _, node := range nodes {
		n += node.Bytes()
	}
	return n
}

// view is the conversation now, or at the sequence in the request.
func (c *httpRequest) view(at events.Seq) (v projector.ReadView, err error) {
	if !c.URL.Query().Has("at") {
		return c.s.cfg.Service.View(c.Context(), c.session)
	}
	now, err := c.s.cfg.Service.State(c.Context(), c.session)
	if err != nil {
		return v, err
	}
	size := now.Bytes() // the fold has another copy, and the page its JSON
	if err := c.memory.Reserve(c.Context(), size+copiesOfJSON*min(size, maxViewBytes)); err != nil {
		return v, err
	}
	err = c.compute(func() error {
		v, err = c.s.cfg.Service.ViewAt(c.Context(), c.session, at)
		return err
	})
	return v, err
}

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

func (in *newFrameJSON) complete(*httpRequest, any) error { return events.CheckToken("id", in.Frame) }
