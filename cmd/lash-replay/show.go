package main

import (
	"context"
	"fmt"
	"math"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/transcript"
)

type showCmd struct {
	Session string        `arg:"" optional:"" help:"Session, or an archive file when no source is given."`
	At      *events.Seq   `placeholder:"SEQ" help:"As it was at this sequence, from 1. Defaults to the end."`
	Leaf    events.NodeID `placeholder:"NODE" help:"The path to this node instead of the active one."`
	Full    bool          `help:"Shorten nothing."`
	Color   string        `enum:"auto,always,never" default:"auto" help:"Colour: auto, always or never. Default: ${default}."`
	JSON    bool          `name:"json" help:"Print one JSON object, with everything."`
}

// shownSession is the session of a show command.
type shownSession struct {
	state    *projector.State
	path     []*projector.Node
	turns    []projector.TurnRecord
	branches map[events.NodeID][]transcript.Branch
	acts     map[events.TurnID][]act
	by       map[events.TurnID]string // the actors that requested the turns
}

// Run folds the history and shows the active path.
func (c *showCmd) Run(ctx context.Context, e *env) error {
	src, id, err := e.openTarget(ctx, c.Session)
	if err != nil {
		return err
	}
	defer src.Close()
	at := events.Seq(math.MaxUint64)
	if c.At != nil {
		at = *c.At
	}
	s, err := follow.At(ctx, src.Log(), src, id, at)
	if err != nil {
		return err
	}
	if c.At != nil && (at == 0 || at > s.Seq) {
		return outside("--at", at, id, s.Seq)
	}
	view, err := c.viewOf(s)
	if err == nil {
		view.acts, view.by, err = acts(ctx, src.Log(), id, s.Seq)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return e.writeJSON(view.json())
	}
	return c.render(ctx, e, src, view)
}

// outside is the error for a sequence that a history does not have.
func outside(flag string, seq events.Seq, id events.SessionID, last events.Seq) error {
	return fmt.Errorf("%s %d: the history of %s has the sequences 1 to %d", flag, seq, id, last)
}

func (c *showCmd) viewOf(s *projector.State) (*shownSession, error) {
	path, err := s.Path()
	if c.Leaf != "" {
		path, err = s.PathTo(c.Leaf)
		if err == nil && len(path) == 0 {
			err = fmt.Errorf("--leaf %s: there is no such node; show --json lists where branches leave", c.Leaf)
		}
	}
	if err != nil {
		return nil, err
	}
	all, err := s.AllNodes()
	if err != nil {
		return nil, err
	}
	turns, err := s.Records()
	return &shownSession{state: s, path: path, turns: turns, branches: transcript.Branches(all, path)}, err
}

func (c *showCmd) render(ctx context.Context, e *env, src source, v *shownSession) error {
	s := v.state
	e.printf("session %s, %s, at sequence %d, %d events, %s to %s\n",
		s.Session, listedOf(new(follow.RowOf(s))).Status, s.Seq, s.Events, eventjson.Clock(s.CreatedAt), eventjson.Clock(s.UpdatedAt))
	if config := configSummary(s.Config); config != "" {
		e.println(config)
	}
	if !s.Forked.IsZero() {
		e.printf("forked from %s at sequence %d\n", s.Forked.Session, s.Forked.Seq)
	}
	v.origin(e)
	e.printf("\n")
	var color func(string) error
	if c.Color == "always" || c.Color == "auto" && e.colorful() {
		color = e.color
	}
	opts := transcript.Options{
		Color: color, Full: c.Full, More: "--full shows all",
		Frames: s.Frames, Turns: v.turns, Branches: v.branches,
		Blob:  func(ref events.BlobRef) ([]byte, error) { return src.Blob(ctx, ref) },
		Actor: v.requester, Acts: v.actsIn,
	}
	if err := transcript.Render(e.Out, v.path, opts); err != nil {
		return err
	}
	p := transcript.NewPrinter(e.Out, opts)
	v.footer(e, p)
	return p.Err()
}

// requester is the actor that requested a turn.
func (v *shownSession) requester(turn events.TurnID) string { return v.by[turn] }

// requested names the actor that requested a turn without nodes.
func (v *shownSession) requested(turn events.TurnID) string { return "requested by " + v.by[turn] }

// footer prints what the path does not show: turns without nodes, and pending work.
func (v *shownSession) footer(e *env, p *transcript.Printer) {
	on := make(map[events.TurnID]bool)
	for _, n := range v.path {
		on[n.Turn] = true
	}
	for i := range v.turns {
		if !on[v.turns[i].ID] {
			e.println("not on this path: turn", joined(transcript.EndLine(&v.turns[i]), v.requested(v.turns[i].ID)))
			v.actsOf(p, v.turns[i].ID)
		}
	}
	s := v.state
	if frame := s.Frame(); len(s.Frames) > 1 {
		e.printf("current frame: %s, opened by %s\n", quoted(string(frame.ID)), quoted(frame.Reason))
	}
	if t := s.Turn(); t != nil {
		e.printf("turn %s runs: attempt %d, iteration %d, by %s\n", t.ID, t.Attempt, t.Iteration, t.Worker)
		if !on[t.ID] {
			v.actsOf(p, t.ID)
		}
		waits(e, t)
	}
	for i := range s.Queue {
		e.println("queued: turn", joined(string(s.Queue[i].ID), string(s.Queue[i].Busy), v.requested(s.Queue[i].ID)))
		v.actsOf(p, s.Queue[i].ID)
	}
	for i := range s.Scheduled {
		e.println("scheduled: turn", joined(string(s.Scheduled[i].ID), "at "+clock(s.Scheduled[i].At), string(s.Scheduled[i].Busy), v.requested(s.Scheduled[i].ID)))
	}
	for i := range s.Inputs {
		e.println("pending input:", s.Inputs[i].ID)
	}
	v.standing(e)
}

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
	NodesAll int64             `json:"nodes"`               // on all branches
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
	Branches []branchJSON     `json:"branches,omitempty"`
}

type branchJSON struct {
	First events.NodeID `json:"first"`
	Leaf  events.NodeID `json:"leaf"`
	Nodes int           `json:"nodes"`
}

func (v *shownSession) json() sessionJSON {
	s := v.state
	out := sessionJSON{
		listed: listedOf(new(follow.RowOf(s))), Seq: s.Seq, Owner: s.Owner, Grants: eventjson.Value{V: s.Grants}, Config: eventjson.Value{V: s.Config}, Leaf: s.Leaf, Frame: string(s.Frame().ID),
		Frames: eventjson.Value{V: s.Frames}, Roots: branchesJSON(v.branches[""]), Path: make([]nodeJSON, 0, len(v.path)),
		Records: eventjson.Value{V: v.turns}, Run: eventjson.Value{V: s.Turn()}, Queue: eventjson.Value{V: s.Queue}, Timed: eventjson.Value{V: s.Scheduled}, Inputs: eventjson.Value{V: s.Inputs},
		Catalog: eventjson.Value{V: s.Catalog}, Sources: eventjson.Value{V: s.ToolSources}, Overlay: eventjson.Value{V: s.Overlay.SessionOverlaid}, Extends: eventjson.Value{V: s.Extensions}, Ledger: eventjson.Value{V: s.Ledger}, NodesAll: s.Nodes, Children: eventjson.Value{V: s.Children},
		Plugins: eventjson.Value{V: s.Plugins}, Tasks: eventjson.Value{V: s.Tasks}, Monitors: eventjson.Value{V: s.Monitors}, Updates: eventjson.Value{V: s.Feed.Updates}, Acts: v.actsJSON(events.KindToolApprovalGiven, events.KindTurnCancelRequested), Asked: v.actsJSON(events.KindToolApprovalAsked),
		By: eventjson.Value{V: v.by}, Partial: v.actsJSON(events.KindModelInterrupted),
	}
	for _, n := range v.path {
		out.Path = append(out.Path, v.node(n))
	}
	return out
}

func (v *shownSession) node(n *projector.Node) nodeJSON {
	out := nodeJSON{
		Node: n.ID, Parent: n.Parent, Seq: n.Seq, Time: eventjson.Clock(n.At), Turn: n.Turn, Frame: n.Frame, Kind: n.Kind, Type: n.Type,
		Branches: branchesJSON(v.branches[n.ID]),
	}
	if n.Kind == events.NodeMessage {
		out.Message = &eventjson.Value{V: n.Message}
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
