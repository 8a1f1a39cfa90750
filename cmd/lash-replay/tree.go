package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/lash-go/lash/cmd/internal/program"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/transcript"
)

type treeCmd struct {
	Session string `arg:"" optional:"" help:"Session, or an archive file when no source is given."`
	JSON    bool   `name:"json" help:"Print one JSON object."`
}

// Help is shown by --help.
func (*treeCmd) Help() string {
	return `Shows the graph of a session: a line for each turn on each branch, and for other nodes. The active branch has filled circles
and stays at the left; a branch that was left stands, indented, where it leaves. show --leaf shows the path to a node.`
}

// stretch is a part of a branch: nodes of one turn and one frame that follow each other without a branch between.
type stretch struct {
	nodes  []*projector.Node
	active bool // on the active path
	next   []*stretch
}

// graph is the graph of a session in stretches.
type graph struct {
	state *projector.State
	roots []*stretch
	ends  map[events.TurnID]*projector.TurnRecord
	leafs int
}

// Run folds the history and shows its graph.
func (c *treeCmd) Run(ctx context.Context, e *env) error {
	src, r, err := e.opened(ctx, c.Session)
	if err != nil {
		return err
	}
	defer src.Close()
	g, err := graphOf(r.state)
	if err != nil {
		return err
	}
	if c.JSON {
		return e.writeJSON(g.json())
	}
	return e.paged(func() error {
		g.print(e)
		return nil
	})
}

// graphOf divides the nodes into stretches.
func graphOf(s *projector.State) (*graph, error) {
	all, err := s.AllNodes()
	if err != nil {
		return nil, err
	}
	path, err := s.Path()
	if err != nil {
		return nil, err
	}
	records, err := s.Records()
	if err != nil {
		return nil, err
	}
	g := &graph{state: s, ends: make(map[events.TurnID]*projector.TurnRecord)}
	for i := range records {
		g.ends[records[i].ID] = &records[i]
	}
	on := make(map[events.NodeID]bool, len(path))
	for _, n := range path {
		on[n.ID] = true
	}
	children := make(map[events.NodeID]int)
	for _, n := range all {
		children[n.Parent]++
	}
	of := make(map[events.NodeID]*stretch, len(all)) // a parent is appended before its children
	for _, n := range all {
		before := of[n.Parent]
		if before != nil && children[n.Parent] == 1 && before.takes(n) {
			before.nodes, of[n.ID] = append(before.nodes, n), before
		} else {
			piece := &stretch{nodes: []*projector.Node{n}, active: on[n.ID]}
			of[n.ID] = piece
			if before == nil {
				g.roots = append(g.roots, piece)
			} else {
				before.next = append(before.next, piece)
			}
		}
		if children[n.ID] == 0 {
			g.leafs++
		}
	}
	return g, nil
}

// takes reports whether a child of the last node belongs to the stretch. Messages without a turn, as a copy has, belong
// to the user's message before them.
func (b *stretch) takes(n *projector.Node) bool {
	last := b.last()
	if n.Turn != last.Turn || n.Frame != last.Frame {
		return false
	}
	return n.Turn != "" || n.Kind == events.NodeMessage && last.Kind == events.NodeMessage && !asks(n)
}

// asks reports whether a node is a user's message, and not results of calls.
func asks(n *projector.Node) bool {
	isResult := func(p events.Part) bool { return p.Kind == events.PartToolResult }
	return n.Message.Role != events.RoleAssistant && !slices.ContainsFunc(n.Message.Parts, isResult)
}

func (b *stretch) first() *projector.Node { return b.nodes[0] }
func (b *stretch) last() *projector.Node  { return b.nodes[len(b.nodes)-1] }

func (g *graph) print(e *env) {
	s := g.state
	e.painted("1", fmt.Sprintf("session %s at sequence %d: %s, %s, %s", s.Session, s.Seq,
		program.Number(s.Nodes, "node"), branches(g.leafs), program.Number(int64(len(s.Frames)), "frame")))
	e.printf("\n")
	if !s.Forked.IsZero() {
		e.printf("forked from %s at sequence %d\n", s.Forked.Session, s.Forked.Seq)
	}
	if s.Leaf == "" && len(g.roots) > 0 {
		e.println("the leaf is before the first node")
	}
	g.chain(e, g.roots, "", "")
}

func branches(n int) string {
	if n == 1 {
		return "1 branch"
	}
	return fmt.Sprintf("%d branches", n)
}

// chain writes the stretches that begin at a place: first those that leave, indented, then the one that goes on.
func (g *graph) chain(e *env, from []*stretch, indent string, frame events.FrameID) {
	for len(from) > 0 {
		on := mainOf(from)
		for _, side := range from {
			if side != on {
				e.printf("%s├─╮\n", indent)
				g.chain(e, []*stretch{side}, indent+"│ ", frame)
			}
		}
		frame = g.line(e, on, indent, frame)
		from = on.next
	}
}

// line writes one stretch, and before it its frame where that is another one.
func (g *graph) line(e *env, b *stretch, indent string, frame events.FrameID) events.FrameID {
	if now := g.frame(b.first()); now != frame {
		frame = now
		e.printf("%s", indent)
		e.painted("35", "=== "+g.frameName(now)+" ===")
		e.printf("\n")
	}
	mark, color := "○", "2"
	if b.active {
		mark, color = "●", "32"
	}
	e.printf("%s", indent)
	e.painted(color, mark+" "+transcript.VisibleLine(g.name(b)))
	e.printf("  %s\n", transcript.VisibleLine(joined(g.text(b), program.Number(int64(len(b.nodes)), "node"), g.endOf(b), nodeRange(b), g.leaf(b))))
	return frame
}

// frame is the frame of a node; empty for the initial one.
func (g *graph) frame(n *projector.Node) events.FrameID {
	if len(g.state.Frames) > 0 && n.Frame == g.state.Frames[0].ID {
		return ""
	}
	return n.Frame
}

func (g *graph) frameName(id events.FrameID) string {
	if id == "" {
		return "back in the initial frame"
	}
	for _, f := range g.state.Frames {
		if f.ID == id {
			return joined("frame "+quoted(string(id)), quoted(f.Reason), prefixed("keeps what came from ", string(f.Keep)))
		}
	}
	return "frame " + quoted(string(id))
}

// name is the turn of a stretch, or the kind of its node.
func (g *graph) name(b *stretch) string {
	n := b.first()
	switch {
	case n.Turn != "":
		return string(n.Turn)
	case n.Kind == events.NodeMessage:
		return string(n.Message.Role)
	}
	return string(n.Kind) + " " + n.Type
}

// text is the beginning of the first text.
func (g *graph) text(b *stretch) string {
	for _, n := range b.nodes {
		for i := range n.Message.Parts {
			if p := &n.Message.Parts[i]; p.Kind == events.PartText && p.Text != "" {
				return short(p.Text)
			}
		}
	}
	return ""
}

// endOf is how the turn of a stretch ended, at its last node.
func (g *graph) endOf(b *stretch) string {
	r := g.ends[b.last().Turn]
	for _, next := range b.next {
		if next.first().Turn == b.last().Turn {
			return ""
		}
	}
	if r == nil {
		return ""
	}
	return string(r.End)
}

func nodeRange(b *stretch) string {
	if len(b.nodes) == 1 {
		return quoted(string(b.first().ID))
	}
	return quoted(string(b.first().ID)) + " to " + quoted(string(b.last().ID))
}

func (g *graph) leaf(b *stretch) string {
	if b.last().ID == g.state.Leaf {
		return "the leaf"
	}
	return ""
}

// mainOf is the stretch with which a branch goes on: the active one, otherwise the newest.
func mainOf(from []*stretch) *stretch {
	for _, b := range from {
		if b.active {
			return b
		}
	}
	return from[len(from)-1]
}

// treeJSON is the output of tree with --json.
type treeJSON struct {
	Session  events.SessionID `json:"session"`
	Seq      events.Seq       `json:"seq"`
	Leaf     events.NodeID    `json:"leaf"`
	Nodes    int64            `json:"nodes"`
	Branches int              `json:"branches"`
	Forked   *eventjson.Value `json:"forked,omitempty"`
	Frames   eventjson.Value  `json:"frames"`
	Pieces   []stretchJSON    `json:"pieces"` // each after its parent
}

// stretchJSON is a stretch.
type stretchJSON struct {
	First  events.NodeID  `json:"first"`
	Last   events.NodeID  `json:"last"`
	Parent events.NodeID  `json:"parent,omitempty"` // the last node of another part
	Nodes  int            `json:"nodes"`
	Turn   events.TurnID  `json:"turn,omitempty"`
	End    events.TurnEnd `json:"end,omitempty"`
	Frame  events.FrameID `json:"frame,omitempty"`
	Kind   string         `json:"kind"`
	Active bool           `json:"active"`
	Text   string         `json:"text,omitempty"`
}

func (g *graph) json() treeJSON {
	s := g.state
	out := treeJSON{
		Session: s.Session, Seq: s.Seq, Leaf: s.Leaf, Nodes: s.Nodes, Branches: g.leafs, Frames: eventjson.Value{V: s.Frames}, Pieces: []stretchJSON{},
	}
	if !s.Forked.IsZero() {
		out.Forked = &eventjson.Value{V: s.Forked}
	}
	for queue := g.roots; len(queue) > 0; {
		b := queue[0]
		queue = append(b.next[:len(b.next):len(b.next)], queue[1:]...)
		out.Pieces = append(out.Pieces, stretchJSON{
			First: b.first().ID, Last: b.last().ID, Parent: b.first().Parent, Nodes: len(b.nodes), Turn: b.first().Turn, End: events.TurnEnd(g.endOf(b)),
			Frame: b.first().Frame, Kind: string(b.first().Kind), Active: b.active, Text: g.text(b),
		})
	}
	return out
}
