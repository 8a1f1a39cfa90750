package projector

import (
	"errors"
	"fmt"
	"sort"

	"github.com/lash-go/lash/events"
)

// Check returns every violated invariant of a complete state, or nil.
func (s *State) Check() error {
	if err := s.complete(); err != nil {
		return err
	}
	return errors.Join(s.checkGraph(), s.checkTurns(), s.checkHead())
}

// checkGraph checks that ids are unique, parents exist and are older (so there is no cycle), the leaf exists, and the
// count matches.
func (s *State) checkGraph() error {
	var errs []error
	seen := make(map[events.NodeID]bool)
	for n := range s.all {
		if seen[n.ID] {
			errs = append(errs, fmt.Errorf("node %s occurs twice", n.ID))
		}
		if n.Parent != "" && !seen[n.Parent] {
			errs = append(errs, fmt.Errorf("node %s: parent %s does not exist before it", n.ID, n.Parent))
		}
		seen[n.ID] = true
	}
	if s.Leaf != "" && !seen[s.Leaf] {
		errs = append(errs, fmt.Errorf("leaf %s does not exist", s.Leaf))
	}
	if int64(len(seen)) != s.Nodes {
		errs = append(errs, fmt.Errorf("head counts %d nodes, there are %d", s.Nodes, len(seen)))
	}
	return errors.Join(errs...)
}

// checkTurns checks that a turn ends once and is then neither running nor queued.
func (s *State) checkTurns() error {
	records, err := s.Records()
	if err != nil {
		return err
	}
	var errs []error
	seen := make(map[events.TurnID]bool)
	note := func(id events.TurnID, where string) {
		if seen[id] {
			errs = append(errs, fmt.Errorf("turn %s occurs twice, the second time %s", id, where))
		}
		seen[id] = true
	}
	for i := range records {
		note(records[i].ID, "finished")
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
	} else if n := s.Proof.Tree.Size(); n != int64(s.Seq) && !s.ahead && !s.seen {
		errs = append(errs, fmt.Errorf("the tree has %d commits, the state is at %d", n, s.Seq))
	}
	errs = append(errs, s.checkTasks()...)
	errs = append(errs, s.checkMonitors()...)
	return errors.Join(errs...)
}
