package harness

import (
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// TurnWhenBusy is a request for a turn whose text is its own id, with a policy.
func TurnWhenBusy(turn events.TurnID, busy api.WhenBusy) api.TurnRequest {
	req := TurnRequest(turn, string(turn))
	req.WhenBusy = busy
	return req
}

// TurnRequest is a request for a turn with a text.
func TurnRequest(turn events.TurnID, s string) api.TurnRequest {
	return api.TurnRequest{ID: turn, Input: events.TurnInput{Parts: []events.Part{Text(s)}}}
}

// SubmitTo submits a turn to a host.
func SubmitTo(b *System, h *session.Host, id events.SessionID, req api.TurnRequest) error {
	_, err := h.Submit(b.Ctx, id, req)
	return err
}

// ScheduleTurn submits a turn that starts at a time.
func (b *System) ScheduleTurn(id events.SessionID, turn events.TurnID, at time.Time, s string) {
	b.T.Helper()
	_, err := b.SubmitAt(b.Ctx, id, at, TurnRequest(turn, s))
	runtest.WantError(b.T, "submit "+string(turn), err, nil)
}

// Timers lists the sessions with a pending timer.
func (b *System) Timers() (ids []string) {
	b.T.Helper()
	list, err := b.Bus.Timers(b.Ctx)
	runtest.WantError(b.T, "timers", err, nil)
	for _, id := range list {
		ids = append(ids, string(id))
	}
	return ids
}
