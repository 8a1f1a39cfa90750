package reader

import (
	"context"
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/turn"
)

// ToolOutput is the whole output of a call that has returned, also where a projector lets the model read another text.
// It reads the log from the call's turn on. Errors: [api.ErrUnknownCall].
func (r *Reader) ToolOutput(ctx context.Context, id events.SessionID, call events.EffectID) (string, error) {
	s, err := r.State(ctx, id)
	if err != nil {
		return "", err
	}
	nodes, err := s.AllNodes()
	if err != nil {
		return "", err
	}
	of, _, _ := strings.Cut(string(call), "/")
	for _, n := range nodes {
		if n.Turn == events.TurnID(of) {
			return r.outputFrom(ctx, id, call, n.Seq)
		}
	}
	return "", fmt.Errorf("call %s of session %s: %w", call, id, api.ErrUnknownCall)
}

func (r *Reader) outputFrom(ctx context.Context, id events.SessionID, call events.EffectID, from events.Seq) (string, error) {
	for entry, err := range r.log.Read(ctx, id, from) {
		if err != nil {
			return "", err
		}
		for i := range entry.Commit.Events {
			e := &entry.Commit.Events[i]
			returned, ok := e.Payload.(*events.ToolReturned)
			if !ok {
				continue
			}
			for _, result := range returned.Results {
				if turn.ToolEffect(e.Turn, returned.Iteration, result.Call) == call {
					return blob.ReadOutput(ctx, r.b, &result)
				}
			}
		}
	}
	return "", fmt.Errorf("call %s of session %s: %w", call, id, api.ErrUnknownCall)
}
