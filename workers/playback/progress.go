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
	a := step.Action
	switch {
	case a.Node != nil:
		ids, err := s.Appended(string(entryNode(a.Entry)))
		return len(ids) > 0, err
	case a.Config != nil:
		_, done, err := s.FindConfiguration(string(entryNode(a.Entry)))
		return done, err
	case a.Frame != nil:
		for _, f := range s.Frames {
			if f.ID == a.Frame.Frame {
				return true, nil
			}
		}
	}
	return false, nil
}

// line is the line of a step in the file.
func (p *Plan) line(s *Step) int {
	if s.Action != nil {
		return p.Conv.Entries[s.Action.Entry].Line
	}
	if len(s.Turn.Replies) > 0 {
		return p.Conv.Entries[s.Turn.Replies[0].Entry].Line
	}
	return p.Conv.Line
}

// configure applies a recorded change of settings without the provider: the scripted one plays all.
func (a *Action) configure(c events.Config) events.Config {
	if a.Config.Model != "" {
		c.Model = a.Config.Model
	}
	if a.Config.Thinking != "" {
		c.Effort = a.Config.Thinking
	}
	return c
}
