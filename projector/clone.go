package projector

import (
	"slices"
)

// Clone returns an independent copy that shares the immutable parts. Its cost does not depend on the length of the
// history.
func (s *State) Clone() *State {
	c := *s
	c.Proof = s.Proof.Clone()
	c.Frames = slices.Clone(s.Frames)
	c.Run = slices.Clone(s.Run)
	if len(c.Run) > 0 {
		t := &c.Run[0]
		t.Calls, t.Asks, t.Nested = slices.Clone(t.Calls), slices.Clone(t.Asks), slices.Clone(t.Nested)
		t.Resolved, t.Queued, t.Direct = slices.Clone(t.Resolved), slices.Clip(t.Queued), slices.Clip(t.Direct)
		t.Timed = slices.Clip(t.Timed)
	}
	c.Grants = slices.Clip(s.Grants)
	c.Children, c.Plugins = slices.Clone(s.Children), slices.Clone(s.Plugins)
	c.Queue = slices.Clip(s.Queue)
	c.Scheduled = slices.Clip(s.Scheduled)
	c.Feed.Updates = slices.Clip(s.Feed.Updates)
	c.Inputs = slices.Clone(s.Inputs)
	c.Ledger = slices.Clone(s.Ledger)
	c.body = s.body.clone()
	return &c
}
