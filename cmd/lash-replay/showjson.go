package main

import (
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/transcript"
)

// sessionJSON is the output of show with --json.
type sessionJSON struct {
	listed
	Seq      events.Seq        `json:"seq"`
	Owner    string            `json:"owner,omitempty"`
	Grants   eventjson.Value   `json:"grants"` // rights of other callers
	Config   eventjson.Value   `json:"config"`
	Leaf     events.NodeID     `json:"leaf,omitempty"`
	Frame    string            `json:"frame,omitempty"`
	Frames   eventjson.Value   `json:"frames"`
	Roots    []branchJSON      `json:"roots,omitempty"` // branches that leave before the first node
	Path     []nodeJSON        `json:"path"`
	Records  eventjson.Value   `json:"turn_records"`
	Run      eventjson.Value   `json:"running_turn"`
	Queue    eventjson.Value   `json:"queue"`
	Timed    eventjson.Value   `json:"scheduled"`
	Inputs   eventjson.Value   `json:"pending_inputs"`
	Catalog  eventjson.Value   `json:"catalog"`
	Sources  eventjson.Value   `json:"tool_sources"` // in addition to the plugins' tools
	Overlay  eventjson.Value   `json:"overlay"`      // over the session's own tools
	Extends  eventjson.Value   `json:"extensions"`   // of the protocol
	Ledger   eventjson.Value   `json:"ledger"`
	Children eventjson.Value   `json:"children"`
	Plugins  eventjson.Value   `json:"plugins"`
	Tasks    eventjson.Value   `json:"tasks"`
	Monitors eventjson.Value   `json:"monitors"`
	Updates  eventjson.Value   `json:"monitor_updates"`     // that no client has taken
	Acts     []eventjson.Event `json:"answers_and_cancels"` // of approval requests and of turns, in order
	Asked    []eventjson.Event `json:"questions"`           // approval requests, in order
	By       eventjson.Value   `json:"turn_actors"`         // that requested the turns
	Partial  []eventjson.Event `json:"partial_replies"`     // of cancelled and failed model calls, in order
	Hooks    []eventjson.Event `json:"hooks"`               // decisions and failures of hooks, in order
	Failures []eventjson.Event `json:"model_failures"`      // in order
	Losses   []eventjson.Event `json:"losses"`              // commits that were lost with their stream, with who accepted that
	Takeover []eventjson.Event `json:"takeovers"`           // later attempts of turns, in order
	Cost     micros            `json:"cost_micro_usd,omitzero"`
	NodesAll int64             `json:"nodes"` // on all branches
}

// nodeJSON is a node of the path.
type nodeJSON struct {
	Node     events.NodeID    `json:"node"`
	Parent   events.NodeID    `json:"parent,omitempty"`
	Seq      events.Seq       `json:"seq"`
	Time     string           `json:"time"`
	Turn     events.TurnID    `json:"turn,omitempty"`
	Frame    events.FrameID   `json:"frame,omitempty"`
	Kind     events.NodeKind  `json:"kind"`
	Message  *eventjson.Value `json:"message,omitempty"`
	Type     string           `json:"type,omitempty"`
	Body     *eventjson.Value `json:"body,omitempty"`
	Blob     *eventjson.Value `json:"blob,omitempty"`
	Call     *callJSON        `json:"call,omitempty"`    // of a reply: the model call
	Results  []resultJSON     `json:"results,omitempty"` // of a message of results: its calls
	Branches []branchJSON     `json:"branches,omitempty"`
}

// callJSON is a model call.
type callJSON struct {
	Iteration int64           `json:"iteration"`
	Provider  string          `json:"provider,omitempty"`
	Model     string          `json:"model,omitempty"`
	Millis    int64           `json:"millis"`
	Attempts  int64           `json:"attempts"`
	Usage     eventjson.Value `json:"usage"`
	Cost      micros          `json:"cost_micro_usd,omitzero"`
}

// resultJSON is how a tool call ended.
type resultJSON struct {
	Call     int64  `json:"call"`
	Outcome  string `json:"outcome"`
	Millis   int64  `json:"millis"`
	Attempts int64  `json:"attempts"`
	Class    string `json:"class,omitempty"`
	Code     string `json:"code,omitempty"`
}

type branchJSON struct {
	First events.NodeID `json:"first"`
	Leaf  events.NodeID `json:"leaf"`
	Nodes int           `json:"nodes"`
}

func (v *shownSession) json() sessionJSON {
	s := v.state
	out := sessionJSON{
		listed: listedState(s), Seq: s.Seq, Owner: s.Owner, Grants: eventjson.Value{V: s.Grants}, Config: eventjson.Value{V: s.Config}, Leaf: s.Leaf, Frame: string(s.Frame().ID),
		Frames: eventjson.Value{V: s.Frames}, Roots: branchesJSON(v.branches[""]), Path: make([]nodeJSON, 0, len(v.path)),
		Records: eventjson.Value{V: v.records()}, Run: eventjson.Value{V: s.Turn()}, Queue: eventjson.Value{V: s.Queue}, Timed: eventjson.Value{V: s.Scheduled}, Inputs: eventjson.Value{V: s.Inputs},
		Catalog: eventjson.Value{V: s.Catalog}, Sources: eventjson.Value{V: s.ToolSources}, Overlay: eventjson.Value{V: s.Overlay.SessionOverlaid}, Extends: eventjson.Value{V: s.Extensions}, Ledger: eventjson.Value{V: s.Ledger}, NodesAll: s.Nodes, Children: eventjson.Value{V: s.Children},
		Plugins: eventjson.Value{V: s.Plugins}, Tasks: eventjson.Value{V: s.Tasks}, Monitors: eventjson.Value{V: s.Monitors}, Updates: eventjson.Value{V: s.Feed.Updates}, Acts: v.actsJSON(events.KindToolApprovalGiven, events.KindTurnCancelRequested), Asked: v.actsJSON(events.KindToolApprovalAsked),
		By: eventjson.Value{V: v.by}, Partial: v.actsJSON(events.KindModelInterrupted),
		Hooks: v.actsJSON(events.KindHookRan), Failures: v.actsJSON(events.KindModelFailed), Takeover: v.actsJSON(events.KindTurnStarted), Losses: v.actsJSON(events.KindSessionLossAccepted),
		Cost: v.prices.total(s.Usage().Entries),
	}
	for _, n := range v.shown {
		out.Path = append(out.Path, v.node(n))
	}
	return out
}

// callOf is the model call of a reply; nil for any other node.
func (v *shownSession) callOf(n *projector.Node) *callJSON {
	p := v.model[messageKey{n.Turn, n.Message.ID}]
	if p == nil || n.Message.Role != events.RoleAssistant {
		return nil
	}
	return &callJSON{
		Iteration: p.Iteration, Provider: p.Provider, Model: p.Model, Millis: p.Millis, Attempts: max(p.Attempts, 1),
		Usage: eventjson.Value{V: p.Cost()}, Cost: v.prices.of(p.Provider, p.Model, p.Cost()),
	}
}

// resultsOf are the results in a message of results.
func (v *shownSession) resultsOf(n *projector.Node) (list []resultJSON) {
	index := 0
	for i := range n.Message.Parts {
		p := &n.Message.Parts[i]
		if p.Kind != events.PartToolResult {
			continue
		}
		r := resultJSON{Call: int64(index), Outcome: outcomeName(p.Outcome), Attempts: 1}
		if found := v.result(n, index); found != nil {
			r.Millis, r.Attempts, r.Class, r.Code = found.Millis, max(found.Attempts, 1), found.Class, found.Code
		}
		list = append(list, r)
		index++
	}
	return list
}

func outcomeName(o events.Outcome) string {
	if o == events.OutcomeSuccess {
		return "success"
	}
	return string(o)
}

func (v *shownSession) node(n *projector.Node) nodeJSON {
	out := nodeJSON{
		Node: n.ID, Parent: n.Parent, Seq: n.Seq, Time: eventjson.Clock(n.At), Turn: n.Turn, Frame: n.Frame, Kind: n.Kind, Type: n.Type,
		Branches: branchesJSON(v.branches[n.ID]),
	}
	if n.Kind == events.NodeMessage {
		out.Message, out.Call, out.Results = &eventjson.Value{V: n.Message}, v.callOf(n), v.resultsOf(n)
	}
	if len(n.Body) > 0 {
		out.Body = &eventjson.Value{V: n.Body}
	}
	if !n.Blob.IsZero() {
		out.Blob = &eventjson.Value{V: n.Blob}
	}
	return out
}

func branchesJSON(list []transcript.Branch) []branchJSON {
	var out []branchJSON
	for _, b := range list {
		out = append(out, branchJSON{First: b.First, Leaf: b.Leaf, Nodes: b.Nodes})
	}
	return out
}
