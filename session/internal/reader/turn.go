package reader

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// TurnResult is how a turn ended, from the cached state where that has the turn's record, and fresh is not set.
func (r *Reader) TurnResult(ctx context.Context, id events.SessionID, turn events.TurnID, fresh bool) (api.TurnResult, error) {
	s, err := r.states.Lock(ctx, id)
	if err != nil {
		return api.TurnResult{}, err
	}
	defer s.Unlock()
	for last := false; !last; fresh = true {
		last = fresh
		if err := s.Load(ctx, fresh); err != nil {
			return api.TurnResult{}, err
		}
		record, err := s.State.Record(turn)
		if err != nil {
			return api.TurnResult{}, err
		}
		if record != nil {
			text, err := answerText(s.State, record)
			switch {
			case err != nil:
			case record.End == events.EndFailed:
				err = &api.TurnFailedError{Turn: turn, Issue: record.Issue}
			case record.End == events.EndRejected:
				err = &api.TurnRejectedError{Turn: turn, By: record.By}
			}
			return api.TurnResult{TurnRecord: *record, Text: text}, err
		}
	}
	return api.TurnResult{}, fmt.Errorf("turn %s of session %s: %w", turn, id, api.ErrUnknownTurn)
}

// answerText is the answer of a finished turn: the text of its last assistant message, or of the tool result that ended
// it.
func answerText(s *projector.State, record *projector.TurnRecord) (string, error) {
	path, err := s.Path()
	if err == nil && s.Leaf != record.Leaf {
		path, err = s.PathTo(record.Leaf)
	}
	for i := len(path) - 1; i >= 0 && path[i].Turn == record.ID; i-- {
		m := path[i].Message
		if record.Tool != "" {
			if results := resultParts(m); int(record.Call) < len(results) {
				return results[record.Call].Text, err
			}
		} else if m.Role == events.RoleAssistant {
			return m.Text(), err
		}
	}
	return "", err
}

func resultParts(m events.Message) []events.Part {
	var list []events.Part
	for _, p := range m.Parts {
		if p.Kind == events.PartToolResult {
			list = append(list, p)
		}
	}
	return list
}

// FindTurn finds a turn in the history. Errors: [api.ErrUnknownTurn].
func (r *Reader) FindTurn(ctx context.Context, id events.SessionID, turn events.TurnID) (projector.TurnPlace, error) {
	s, err := r.State(ctx, id)
	if err != nil {
		return projector.TurnPlace{}, err
	}
	place, err := s.FindTurn(turn)
	if err == nil && !place.Known() {
		err = api.ErrUnknownTurn
	}
	return place, err
}
