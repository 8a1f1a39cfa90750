package session

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/check"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
)

// Complete makes a direct completion with a session's model, outside of turns. The request contains nothing of the
// conversation, and the reply does not become part of it. The reply is recorded and charged to the ledger under
// source, which has 1 to [events.MaxIDBytes] bytes. A repeat with the same key, see [api.RequestMeta], gets the recorded
// reply and spends nothing. Errors: [*events.FieldError], [api.ErrClosed], [plugin.ErrUnavailable] of a host without
// models, [api.ErrCompletion].
func (h *Host) Complete(ctx context.Context, id events.SessionID, req plugin.CompletionRequest, source string) (plugin.Completion, error) {
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	meta, err := h.keyedMeta(requestContent{operation.Complete.Name, "complete", &operation.CompleteArgs{Request: req, Source: source}}, reqMeta)
	if err != nil {
		return plugin.Completion{}, err
	}
	state, err := h.State(ctx, id)
	if err != nil {
		return plugin.Completion{}, err
	}
	s := &runtimeHost{h: h.Worker(), id: id}
	if seq, err := meta.committedAt(state); err != nil || seq != 0 {
		return s.completionAt(ctx, seq, err)
	}
	err = check.Open(state)
	if err == nil {
		err = check.Completion(&req)
	}
	if err != nil {
		return plugin.Completion{}, fmt.Errorf("complete: %w", err)
	}
	call, fact, err := s.directCall(state, req, source)
	if err != nil {
		return plugin.Completion{}, fmt.Errorf("complete: %w", err)
	}
	got, err := s.callModel(ctx, call, fact)
	if code, _ := api.Code(err); err != nil && code == api.CodeInternal {
		err = fmt.Errorf("%w: %w", api.ErrCompletion, err)
	}
	if err != nil {
		return plugin.Completion{}, fmt.Errorf("complete: %w", err)
	}
	first := events.Seq(0) // of a concurrent copy of the request
	then := func(state *projector.State, appended bool) (err error) {
		if !appended {
			first, err = meta.committedAt(state)
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
		if _, err := h.charge(ctx, id, "", fact); err != nil {
			return plugin.Completion{}, err
		}
	}
	return s.completionAt(ctx, first, nil)
}

// completionAt reads the reply from the commit that recorded it.
func (s *runtimeHost) completionAt(ctx context.Context, seq events.Seq, err error) (plugin.Completion, error) {
	if err != nil {
		return plugin.Completion{}, err
	}
	for entry, err := range s.h.log.Read(ctx, s.id, seq) {
		if err != nil {
			return plugin.Completion{}, err
		}
		if fact, ok := entry.Commit.Events[0].Payload.(*events.ModelCompleted); ok {
			api.RecordSeq(ctx, s.id, seq)
			return s.recordedCompletion(ctx, fact, nil)
		}
		break
	}
	return plugin.Completion{}, fmt.Errorf("commit %d of session %s is no completion: %w", seq, s.id, events.ErrMalformed)
}
