package session

import (
	"cmp"
	"context"
	"fmt"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/internal/completion"
	"github.com/lash-go/lash/session/plugin"
)

// CompleteFunc makes one direct completion, with retries under the retry policy.
type CompleteFunc func(ctx context.Context, call DirectCall) (plugin.Completion, error)

// DirectCall is the input of a direct completion of a session.
type DirectCall struct {
	plugin.CompletionRequest
	Session      events.SessionID
	Config       events.Config // of the session
	Source       string        // of usage, in the ledger
	TraceContext api.TraceContext
}

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
	state, err := s.SnapshotCurrent(ctx)
	if err != nil {
		return plugin.Completion{}, err
	}
	call, fact, err := s.directCall(state, req, source)
	if err != nil {
		return plugin.Completion{}, err
	}
	var turn events.TurnID
	if t := state.Turn(); t != nil && s.effect != "" {
		turn, fact.Key = t.ID, completion.ShortKey(string(s.effect)+"/"+fact.Key)
		if old, err := s.h.directReply(ctx, s.id, turn, fact); old != nil || err != nil {
			return s.recordedCompletion(ctx, old, err)
		}
	}
	got, err := s.callModel(ctx, call, fact)
	if err != nil {
		return plugin.Completion{}, err
	}
	if turn == "" && got.Usage.IsZero() {
		return got, nil // no usage to charge, no reply to repeat
	}
	old, err := s.h.charge(ctx, s.id, turn, fact)
	if old != nil || err != nil {
		return s.recordedCompletion(ctx, old, err)
	}
	return got, nil
}

// directCall builds the model call of a request, and the event that records it.
func (s *runtimeHost) directCall(state *projector.State, req plugin.CompletionRequest, source string) (DirectCall, *events.ModelCompleted, error) {
	if s.h.complete == nil {
		return DirectCall{}, nil, plugin.ErrUnavailable
	}
	if err := req.Check(); err != nil {
		return DirectCall{}, nil, err
	}
	config := state.Config
	config.Model, config.MaxOutputTokens = cmp.Or(req.Model, config.Model), req.MaxTokens
	config, err := s.h.Locked(config)
	if err != nil {
		return DirectCall{}, nil, err
	}
	req.MaxTokens, req.Stream = config.MaxOutputTokens, completion.InPieces(req.Stream)
	digest, err := completion.Digest(req)
	if err == nil && (source == "" || len(source) > events.MaxIDBytes) {
		err = &events.FieldError{Field: "source", Reason: "is empty or too long", Err: events.ErrInvalid}
	}
	fact := &events.ModelCompleted{Key: completion.ShortKey(cmp.Or(req.Key, digest)), Request: digest, Source: source}
	return DirectCall{CompletionRequest: req, Session: s.id, Config: state.Config, Source: source, TraceContext: s.traceContext()}, fact, err
}

// callModel calls the model, and stores the reply in the event.
func (s *runtimeHost) callModel(ctx context.Context, call DirectCall, fact *events.ModelCompleted) (plugin.Completion, error) {
	got, err := s.h.complete(ctx, call)
	fact.Parts, fact.Stop, fact.Usage, fact.Model = got.Parts, got.Stop, got.Usage, got.Model
	return got, err
}

// recordedCompletion returns a reply as the history has it.
func (s *runtimeHost) recordedCompletion(ctx context.Context, p *events.ModelCompleted, err error) (plugin.Completion, error) {
	if err != nil {
		return plugin.Completion{}, err
	}
	filled, err := blob.Fill(ctx, s.h.b, []events.Message{{Parts: p.Parts}})
	if err != nil {
		return plugin.Completion{}, err
	}
	return plugin.Completion{
		Text: filled[0].Text(), Parts: filled[0].Parts, Stop: p.Stop, Model: p.Model, Usage: p.Usage,
	}, nil
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

// charge records a direct completion. If another process recorded a reply to the same key meanwhile, charge returns
// that reply and charges this one under a new key.
func (h *Host) charge(ctx context.Context, id events.SessionID, turn events.TurnID, fact *events.ModelCompleted) (old *events.ModelCompleted, err error) {
	err = h.decide(ctx, id, "direct completion", func(s *projector.State) ([]events.Event, error) {
		var err error
		if old, err = completion.Recorded(s, turn, fact); err != nil {
			return nil, err
		}
		in, charged := events.TurnID(""), *fact
		if t := s.Turn(); t != nil && t.ID == turn {
			in = turn
		}
		if old != nil {
			charged.Key += "/" + ulid.Make().String()
			if charged.Usage.IsZero() {
				return nil, nil
			}
		}
		return []events.Event{events.Of(in, &charged)}, nil
	})
	return old, err
}
