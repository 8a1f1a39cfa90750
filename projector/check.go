package projector

import (
	"errors"
	"fmt"
	"sort"

	"github.com/lash-go/lash/events"
)

// Check returns every violated invariant of a complete state, or nil.
func (s *State) Check() error { return (&checker{}).check(s) }

// checker checks the invariants of one state that is folded further between its calls. Nodes and records never change
// and are only appended, so that each call checks those of the commits since the call before.
type checker struct {
	nodes map[events.NodeID]bool
	turns map[events.TurnID]bool // finished ones
	node  place
	turn  place
}

// place is the first unchecked element of a list in blocks: index of the block, and of the element in it. When the open
// block at the end grows full, its first elements become a closed block of the same index, so the place stays right.
type place struct{ block, at int }

func (c *checker) check(s *State) error {
	if c.nodes == nil {
		c.nodes, c.turns = make(map[events.NodeID]bool, s.Nodes), make(map[events.TurnID]bool)
	}
	if err := s.completeFrom(c.node.block, c.turn.block); err != nil {
		return err
	}
	return errors.Join(c.checkGraph(s), c.checkTurns(s), s.checkHead())
}

// checkGraph checks that ids are unique, parents exist and are older (so there is no cycle), the leaf exists, and the
// count matches.
func (c *checker) checkGraph(s *State) error {
	var errs []error
	for n := range after(&c.node, len(s.body.segments), func(i int) []*Node {
		if i < len(s.body.segments) {
			return s.body.segments[i].nodes
		}
		return s.body.tail
	}) {
		if c.nodes[n.ID] {
			errs = append(errs, fmt.Errorf("node %s occurs twice", n.ID))
		}
		if n.Parent != "" && !c.nodes[n.Parent] {
			errs = append(errs, fmt.Errorf("node %s: parent %s does not exist before it", n.ID, n.Parent))
		}
		c.nodes[n.ID] = true
	}
	if s.Leaf != "" && !c.nodes[s.Leaf] {
		errs = append(errs, fmt.Errorf("leaf %s does not exist", s.Leaf))
	}
	if int64(len(c.nodes)) != s.Nodes {
		errs = append(errs, fmt.Errorf("head counts %d nodes, there are %d", s.Nodes, len(c.nodes)))
	}
	return errors.Join(errs...)
}

// after yields the elements that were added since the last call, and moves the place behind them. closed is the number of blocks
// before the open one.
func after[E any](p *place, closed int, block func(int) []E) func(yield func(E) bool) {
	return func(yield func(E) bool) {
		for ; ; p.block, p.at = p.block+1, p.at-len(block(p.block)) {
			for list := block(p.block); p.at < len(list); {
				p.at++
				if !yield(list[p.at-1]) {
					return
				}
			}
			if p.block >= closed {
				return
			}
		}
	}
}

// checkTurns checks that a turn ends once and is then neither running nor queued.
func (c *checker) checkTurns(s *State) error {
	var errs []error
	twice := func(id events.TurnID, where string) {
		errs = append(errs, fmt.Errorf("turn %s occurs twice, the second time %s", id, where))
	}
	for t := range after(&c.turn, len(s.body.books), func(i int) []TurnRecord {
		if i < len(s.body.books) {
			return s.body.books[i].turns
		}
		return s.body.turns
	}) {
		if c.turns[t.ID] {
			twice(t.ID, "finished")
		}
		c.turns[t.ID] = true
	}
	open := make(map[events.TurnID]bool)
	note := func(id events.TurnID, where string) {
		if open[id] || c.turns[id] {
			twice(id, where)
		}
		open[id] = true
	}
	for i := range s.Run {
		note(s.Run[i].ID, "running")
	}
	for i := range s.Queue {
		note(s.Queue[i].ID, "queued")
	}
	for i := range s.Scheduled {
		note(s.Scheduled[i].ID, "scheduled")
		if i > 0 && s.Scheduled[i-1].At > s.Scheduled[i].At {
			errs = append(errs, fmt.Errorf("scheduled turn %s stands before %s, which is due earlier", s.Scheduled[i-1].ID, s.Scheduled[i].ID))
		}
	}
	if len(s.Run) > 1 {
		errs = append(errs, fmt.Errorf("%d turns run at once", len(s.Run)))
	}
	return errors.Join(errs...)
}

func (s *State) checkHead() error {
	var errs []error
	if s.Status != StatusNone && len(s.Frames) == 0 {
		errs = append(errs, errors.New("no active frame"))
	}
	frames := make(map[events.FrameID]bool)
	for _, f := range s.Frames {
		if frames[f.ID] {
			errs = append(errs, fmt.Errorf("frame %s was opened twice", f.ID))
		}
		frames[f.ID] = true
	}
	inputs := make(map[events.InputID]bool)
	for _, in := range s.Inputs {
		if inputs[in.ID] {
			errs = append(errs, fmt.Errorf("input %s is pending twice", in.ID))
		}
		inputs[in.ID] = true
	}
	if !sort.SliceIsSorted(s.Catalog.Tools, func(i, j int) bool { return s.Catalog.Tools[i].Name < s.Catalog.Tools[j].Name }) {
		errs = append(errs, errors.New("catalogue is not sorted"))
	}
	if err := s.Proof.Tree.Check(); err != nil {
		errs = append(errs, err)
	} else if n := s.Proof.Tree.Size(); n != int64(s.Seq) && !s.ahead && !s.unproven {
		errs = append(errs, fmt.Errorf("the tree has %d commits, the state is at %d", n, s.Seq))
	}
	errs = append(errs, s.checkTasks()...)
	errs = append(errs, s.checkMonitors()...)
	return errors.Join(errs...)
}
