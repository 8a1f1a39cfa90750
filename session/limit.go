package session

import (
	"context"
	"errors"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// DefaultMaxQueued is how many turns may wait in one session, where nothing else is configured.
const DefaultMaxQueued = 1024

// countEvery is how many turns of one session a host submits before it counts again.
const countEvery = 64

// backlog is what a host knows of the turns that wait in a session, under the lock of its state.
type backlog struct {
	known   bool // it looked, or opened the session itself
	counted int  // when it looked last
	since   int  // submitted here since then
}

// roomFor refuses a turn where as many wait as may, with an [api.LimitError].
// One that waits already, or did, is not refused. In the usual case it asks
// nobody: what others submitted in between is found at the next count, and
// what is too much by then a worker refuses.
func (h *Host) roomFor(ctx context.Context, id events.SessionID, turn events.TurnID) error {
	s := h.held(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	waited := s.queue.counted
	if s.state != nil {
		waited = max(waited, len(s.state.Queue))
	}
	if s.queue.known && s.queue.since < countEvery && waited+s.queue.since < h.maxQueued {
		s.queue.since++
		return nil
	}
	if err := h.loadLocked(ctx, id, s, true); err != nil {
		return err
	}
	waits, err := h.b.Backlog(ctx, bus.ClassTurn, id)
	if err != nil {
		return err
	}
	s.queue = backlog{known: true, counted: len(s.state.Queue) + waits, since: 1}
	if s.queue.counted < h.maxQueued {
		return nil
	}
	if _, digest, err := findTurn(s.state, turn); err != nil || digest != "" {
		return err
	}
	if _, err := h.b.Queued(ctx, bus.ClassTurn, id, string(turn)); !errors.Is(err, bus.ErrNotFound) {
		return err
	}
	return &api.LimitError{What: "queued turns", Limit: h.maxQueued}
}
