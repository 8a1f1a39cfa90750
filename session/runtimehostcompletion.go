package session

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/internal/completion"
	"github.com/lash-go/lash/session/plugin"
)

// Complete makes a direct completion with the session's model. In a turn the reply is recorded under its key before
// it is used. A repeated request gets the recorded reply.
func (s *runtimeHost) Complete(ctx context.Context, req plugin.CompletionRequest, source string) (plugin.Completion, error) {
	got, err := s.complete(ctx, req, source)
	if err != nil {
		return plugin.Completion{}, fmt.Errorf("direct completion: %w", err)
	}
	return got, nil
}

func (s *runtimeHost) complete(ctx context.Context, req plugin.CompletionRequest, source string) (plugin.Completion, error) {
	state, err := s.current(ctx)
	if err != nil {
		return plugin.Completion{}, err
	}
	call, fact, err := s.h.directCall(state, req, source, s.traceContext())
	if err != nil {
		return plugin.Completion{}, err
	}
	var turn events.TurnID
	if t := state.Turn(); t != nil && s.effect != "" {
		turn, fact.Key = t.ID, completion.ShortKey(string(s.effect)+"/"+fact.Key)
		if old, err := s.h.directReply(ctx, s.id, turn, fact); old != nil || err != nil {
			return s.recorded(ctx, old, err)
		}
	}
	got, err := s.h.callModel(ctx, call, fact)
	if err != nil {
		return plugin.Completion{}, err
	}
	if turn == "" && got.Usage.IsZero() {
		return got, nil // no usage to charge, no reply to repeat
	}
	old, err := s.h.recordCompletion(ctx, s.id, turn, fact)
	if old != nil || err != nil {
		return s.recorded(ctx, old, err)
	}
	return got, nil
}

// recorded returns a reply as the history has it.
func (s *runtimeHost) recorded(ctx context.Context, p *events.ModelCompleted, err error) (plugin.Completion, error) {
	if err != nil {
		return plugin.Completion{}, err
	}
	return completion.Reply(ctx, s.h.b, p)
}

// directReply is the reply that a turn has recorded under the key of a completion; nil where it has none. It reads
// the log, because the caller's state may be older than the caller's own requests. A key of a different request is
// [api.ErrDifferent].
func (h *Host) directReply(ctx context.Context, id events.SessionID, turn events.TurnID, fact *events.ModelCompleted) (*events.ModelCompleted, error) {
	s, err := h.State(ctx, id)
	if err != nil {
		return nil, err
	}
	return completion.Recorded(s, turn, fact)
}
