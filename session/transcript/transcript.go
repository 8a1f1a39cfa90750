package transcript

import (
	"io"
	"math"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Options configure a transcript, and have the data that its nodes lack.
type Options struct {
	// Color switches to an ANSI colour ("31"), and back ("0"). It bypasses the writer, which may escape control
	// characters. Defaults to no colours.
	Color func(code string) error
	Full  bool   // shows all texts in full
	Limit int    // visible bytes of a text. Defaults to 1200
	Args  int    // visible bytes of a call's arguments. Defaults to 160
	Lines int    // visible lines of a tool's result. Defaults to all
	More  string // hint in the marker of a shortened text: "--full shows it"

	Frames   []projector.Frame          // of the session, for the reason of each frame
	Turns    []projector.TurnRecord     // finished turns; their ends are shown
	Branches map[events.NodeID][]Branch // branches by the path's node at which they start; see [Branches]
	// Blob reads a body outside the log. Defaults to none: the transcript shows references.
	Blob func(events.BlobRef) ([]byte, error)
	// Actor returns who requested a turn, empty where that is not known. Defaults to none.
	Actor func(events.TurnID) string
	// Acts returns the acts of a turn, in order. Defaults to none.
	Acts func(events.TurnID) []Act
	// Head returns what the head of a message says in addition, for example the duration of a model call. Defaults to nothing.
	Head func(*projector.Node) string
	// Result returns the same for the result of a call, by its index among the results of the message.
	Result func(n *projector.Node, index int) string
	// End returns the same for the end of a turn.
	End func(*projector.TurnRecord) string
	// Select reduces a text before it is shortened, for example to the lines with a word. Defaults to the whole text.
	Select func(string) string
}

// Act is a line about an event of a turn that no node shows.
type Act struct {
	After events.Seq // its position: after the turn's nodes of the commits up to this one
	Line  string
	Parts []events.Part // texts to show below the line; may be empty
}

// Render writes the nodes of a path, with separators between turns and marks for branches and frames.
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

// Branch is a part of the graph outside a path.
type Branch struct {
	First events.NodeID // its first node, a child of the path's node
	Leaf  events.NodeID // its newest node
	Nodes int           // number of nodes, its own branches included
}

// Branches returns the branches outside a path, oldest first, by the path's node at which they start; the empty id is
// for those next to the path's first node. all is every node of the session in the order of the appends.
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
	owner := make(map[events.NodeID]at) // the branch of each node outside the path
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
