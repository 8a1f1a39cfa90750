package playback

import (
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// landed reports whether the history has a whole step. A branch cannot be found in the history and counts as not.
func landed(s *projector.State, step *Step) (bool, error) {
	if step.Turn != nil {
		record, err := s.Record(step.Turn.ID)
		return record != nil, err
	}
	a := step.action
	switch {
	case a.node != nil:
		ids, err := s.Appended(string(entryNode(a.entry)))
		return len(ids) > 0, err
	case a.config != nil:
		_, done, err := s.FindRequest(string(entryNode(a.entry)))
		return done, err
	case a.frame != nil:
		for _, f := range s.Frames {
			if f.ID == a.frame.Frame {
				return true, nil
			}
		}
	}
	return false, nil
}

// line is the line of a step in the file.
func (p *Plan) line(s *Step) int {
	if s.action != nil {
		return p.Conv.Entries[s.action.entry].Line
	}
	if len(s.Turn.Replies) > 0 {
		return p.Conv.Entries[s.Turn.Replies[0].entry].Line
	}
	return p.Conv.Line
}

// configure applies a recorded change of settings without the provider: the scripted one plays all.
func (a *action) configure(c events.Config) events.Config {
	if a.config.Model != "" {
		c.Model = a.config.Model
	}
	if a.config.Thinking != "" {
		c.Effort = a.config.Thinking
	}
	return c
}
