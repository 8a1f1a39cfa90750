package transcript

import (
	"io"
	"math"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Options say how a transcript looks and what is known besides its nodes.
type Options struct {
	// Color switches to an ANSI colour ("31"), and back ("0"). It goes past the writer, which
	// may escape. Defaults to none: no colours.
	Color func(code string) error
	Full  bool   // nothing is shortened
	Limit int    // bytes of a text that are shown. Defaults to 1200
	Args  int    // bytes of a call's arguments that are shown. Defaults to 160
	More  string // how to see what was shortened, as the marker says it: "--full shows it"

	Frames   []projector.Frame          // of the session, to say why each was opened
	Turns    []projector.TurnRecord     // finished turns; their ends are shown
	Branches map[events.NodeID][]Branch // what leaves the path at a node; see [Branches]
	// Blob reads a body kept outside the log. Defaults to none: references are shown.
	Blob func(events.BlobRef) ([]byte, error)
	// Acts are what happened to a turn and no node shows, in order. Defaults to none.
	Acts func(events.TurnID) []Act
}

// Act is a line about a turn between its nodes.
type Act struct {
	After events.Seq // it stands behind the turn's nodes of the commits up to this one
	Line  string
}

// Render writes the nodes of a path, turns separated, branches and frames marked.
func Render(w io.Writer, nodes []*projector.Node, opts Options) error {
	p := NewPrinter(w, opts)
	p.branches("")
	last := make(map[events.TurnID]int)
	for i, n := range nodes {
		last[n.Turn] = i
	}
	ends := make(map[events.TurnID]*projector.TurnRecord)
	for i := range opts.Turns {
		ends[opts.Turns[i].ID] = &opts.Turns[i]
	}
	for i, n := range nodes {
		p.Node(n)
		if n.Turn == "" || last[n.Turn] != i {
			continue
		}
		p.acts(n.Turn, math.MaxUint64)
		if end := ends[n.Turn]; end != nil {
			p.TurnEnded(end)
		}
	}
	return p.Err()
}

// Branch is a part of the graph that leaves a path.
type Branch struct {
	First events.NodeID // its first node, the child of the one where it leaves
	Leaf  events.NodeID // its newest node
	Nodes int           // how many it holds, its own branches included
}

// Branches finds what leaves a path: by the node of the path where it leaves,
// empty for what begins beside the path's first node, oldest first. all is
// every node of the session in the order in which it was appended.
func Branches(all, path []*projector.Node) map[events.NodeID][]Branch {
	on := make(map[events.NodeID]bool, len(path))
	for _, n := range path {
		on[n.ID] = true
	}
	type at struct {
		leave events.NodeID
		index int
	}
	out := make(map[events.NodeID][]Branch)
	owner := make(map[events.NodeID]at) // of nodes off the path: the branch they are in
	for _, n := range all {
		if on[n.ID] {
			continue
		}
		branch, inside := owner[n.Parent]
		if !inside {
			branch = at{n.Parent, len(out[n.Parent])}
			out[n.Parent] = append(out[n.Parent], Branch{First: n.ID})
		}
		owner[n.ID] = branch
		b := &out[branch.leave][branch.index]
		b.Leaf, b.Nodes = n.ID, b.Nodes+1
	}
	return out
}
