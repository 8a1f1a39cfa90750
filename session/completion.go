package session

import (
	"cmp"
	"context"
	"fmt"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/check"
	"github.com/lash-go/lash/session/internal/completion"
	"github.com/lash-go/lash/session/operation"
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

// Complete makes a direct completion with a session's model, outside of turns. The request contains nothing of the
// conversation, and the reply does not become part of it. The reply is recorded and charged to the ledger under
// source, which has 1 to [events.MaxIDBytes] bytes. A repeat with the same key, see [api.RequestMeta], gets the recorded
// reply and spends nothing. Errors: [*events.FieldError], [api.ErrClosed], [plugin.ErrUnavailable] of a host without
// models, [api.ErrCompletion].
func (h *Host) Complete(ctx context.Context, id events.SessionID, req plugin.CompletionRequest, source string) (plugin.Completion, error) {
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	meta, err := h.keyedMeta(ctx, requestContent{operation.Complete.Name, "complete", &operation.CompleteArgs{Request: req, Source: source}}, reqMeta)
	if err != nil {
		return plugin.Completion{}, err
	}
	state, err := h.State(ctx, id)
	if err != nil {
		return plugin.Completion{}, err
	}
	if seq, err := meta.committedAt(ctx, state); err != nil || seq != 0 {
		return h.completionAt(ctx, id, seq, err)
	}
	err = check.Open(state)
	if err == nil {
		err = check.Completion(&req)
	}
	if err != nil {
		return plugin.Completion{}, fmt.Errorf("complete: %w", err)
	}
	call, fact, err := h.directCall(state, req, source, api.TraceContext{Session: id})
	if err != nil {
		return plugin.Completion{}, fmt.Errorf("complete: %w", err)
	}
	got, err := h.callModel(ctx, call, fact)
	if code, _ := api.Code(err); err != nil && code == api.CodeInternal {
		err = fmt.Errorf("%w: %w", api.ErrCompletion, err)
	}
	if err != nil {
		return plugin.Completion{}, fmt.Errorf("complete: %w", err)
	}
	first := events.Seq(0) // of a concurrent copy of the request
	then := func(state *projector.State, appended bool) (err error) {
		if !appended {
			first, err = meta.committedAt(ctx, state)
		}
		return err
	}
	err = h.decideUntilAppended(ctx, id, decideOptions{meta: meta, then: then}, func(*projector.State) ([]events.Event, error) {
		return []events.Event{events.Of("", fact)}, nil
	})
	if err != nil || first == 0 {
		return got, err
	}
	if !fact.Usage.IsZero() { // both model calls cost tokens
		if _, err := h.recordCompletion(ctx, id, "", fact); err != nil {
			return plugin.Completion{}, err
		}
	}
	return h.completionAt(ctx, id, first, nil)
}

// completionAt reads the reply from the commit that recorded it.
func (h *Host) completionAt(ctx context.Context, id events.SessionID, seq events.Seq, err error) (plugin.Completion, error) {
	if err != nil {
		return plugin.Completion{}, err
	}
	for entry, err := range h.log.Read(ctx, id, seq) {
		if err != nil {
			return plugin.Completion{}, err
		}
		if fact, ok := entry.Commit.Events[0].Payload.(*events.ModelCompleted); ok {
			api.RecordSeq(ctx, id, seq)
			return completion.Reply(ctx, h.b, fact)
		}
		break
	}
	return plugin.Completion{}, fmt.Errorf("commit %d of session %s is no completion: %w", seq, id, events.ErrMalformed)
}

// directCall builds the model call of a request, and the event that records it.
func (h *Host) directCall(state *projector.State, req plugin.CompletionRequest, source string, at api.TraceContext) (DirectCall, *events.ModelCompleted, error) {
	if h.process.Complete == nil {
		return DirectCall{}, nil, plugin.ErrUnavailable
	}
	if err := req.Check(); err != nil {
		return DirectCall{}, nil, err
	}
	config := state.Config
	config.Model, config.MaxOutputTokens = cmp.Or(req.Model, config.Model), req.MaxTokens
	config, err := h.Worker().Locked(config)
	if err != nil {
		return DirectCall{}, nil, err
	}
	req.MaxTokens, req.Stream = config.MaxOutputTokens, completion.SplitDeltas(req.Stream)
	fact, err := completion.Event(req, source)
	return DirectCall{CompletionRequest: req, Session: state.Session, Config: state.Config, Source: source, TraceContext: at}, fact, err
}

// callModel calls the model, and stores the reply in the event.
func (h *Host) callModel(ctx context.Context, call DirectCall, fact *events.ModelCompleted) (plugin.Completion, error) {
	got, err := h.process.Complete(ctx, call)
	fact.Parts, fact.Stop, fact.Usage, fact.Model = got.Parts, got.Stop, got.Usage, got.Model
	return got, err
}

// recordCompletion records a direct completion. If another process has recorded a reply under the same key, it returns
// that reply, and records this one under a new key, so that its usage is charged.
func (h *Host) recordCompletion(ctx context.Context, id events.SessionID, turn events.TurnID, fact *events.ModelCompleted) (old *events.ModelCompleted, err error) {
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
