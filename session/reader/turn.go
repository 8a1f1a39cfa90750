package reader

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// TurnResult is how a turn ended, from the cached state where that has the turn's record.
func (r *Reader) TurnResult(ctx context.Context, id events.SessionID, turn events.TurnID) (api.TurnResult, error) {
	s, err := r.states.Lock(ctx, id)
	if err != nil {
		return api.TurnResult{}, err
	}
	defer s.Unlock()
	for _, fresh := range []bool{false, true} {
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

// answerText is the answer of a finished turn: the text of its last assistant
// message, or of the tool result that ended it.
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

// Turn is the place of a turn in a session.
type Turn struct {
	Record    *projector.TurnRecord // of a turn that has ended
	Scheduled bool                  // the turn waits for its time
	Digest    string                // of the input; empty: the session does not have the turn
	Seq       events.Seq            // of the commit that accepted it
}

// FindTurn finds a turn that runs, waits or has ended.
func FindTurn(s *projector.State, id events.TurnID) (Turn, error) {
	if t := s.Turn(); t != nil && t.ID == id {
		return Turn{Digest: projector.InputDigest(t.Input), Seq: t.Seq}, nil
	}
	for i := range s.Queue {
		if q := &s.Queue[i]; q.ID == id {
			return Turn{Digest: projector.InputDigest(q.Input), Seq: q.Seq}, nil
		}
	}
	for i := range s.Scheduled {
		if d := &s.Scheduled[i]; d.ID == id {
			return Turn{Scheduled: true, Digest: projector.InputDigest(d.Input), Seq: d.Seq}, nil
		}
	}
	record, err := s.Record(id)
	if record == nil {
		return Turn{}, err
	}
	return Turn{Record: record, Digest: record.Input, Seq: record.Asked}, err
}

// Turn is the place of a turn in the history. Errors: [api.ErrUnknownTurn].
func (r *Reader) Turn(ctx context.Context, id events.SessionID, turn events.TurnID) (found Turn, err error) {
	s, err := r.State(ctx, id)
	if err != nil {
		return Turn{}, err
	}
	found, err = FindTurn(s, turn)
	if err == nil && found.Digest == "" {
		err = api.ErrUnknownTurn
	}
	return found, err
}
