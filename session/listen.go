package session

import (
	"context"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// listener is a session's live subscription, shared by all who wait on it here.
// It outlives them for a while: a session that moved once moves again.
type listener struct {
	stop func()
	ears map[*ear]bool
	idle time.Time // since when nobody listens
}

// ear hears the commits that end turns.
type ear struct {
	h       *Host
	session events.SessionID
	ends    chan *events.Commit // one that is full misses some, which its timer makes up for
}

const (
	// idleListener is how long a subscription is kept that nobody uses.
	idleListener = 30 * time.Second
	// earBuffer is how many ends of turns one who waits may be behind.
	earBuffer = 64
)

// listen subscribes before it returns.
func (h *Host) listen(id events.SessionID) (*ear, error) {
	e := &ear{h: h, session: id, ends: make(chan *events.Commit, earBuffer)}
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.listeners[id]
	if l == nil {
		h.dropIdleLocked()
		stop, err := h.b.OnCommit(id, func(m bus.LiveMessage) { h.heard(id, m) })
		if err != nil {
			return nil, err
		}
		l = &listener{stop: stop, ears: make(map[*ear]bool)}
		h.listeners[id] = l
	}
	l.ears[e] = true
	return e, nil
}

func (e *ear) close() {
	e.h.mu.Lock()
	defer e.h.mu.Unlock()
	l := e.h.listeners[e.session]
	delete(l.ears, e)
	l.idle = time.Now()
}

// dropIdleLocked ends subscriptions that nobody has used for long. A look
// costs as much as there are listeners, so it is taken now and then only.
func (h *Host) dropIdleLocked() {
	if time.Since(h.dropped) < idleListener {
		return
	}
	h.dropped = time.Now()
	for id, l := range h.listeners {
		if len(l.ears) == 0 && time.Since(l.idle) > idleListener {
			l.stop()
			delete(h.listeners, id)
		}
	}
}

// heard folds a live commit into the state at hand and passes it on if it ends a turn.
func (h *Host) heard(id events.SessionID, m bus.LiveMessage) {
	c := h.overhear(id, m)
	if c == nil || !m.EndsTurn {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.listeners[id]; l != nil {
		for e := range l.ears {
			select {
			case e.ends <- c:
			default:
			}
		}
	}
}

// overhear folds a commit that is seen live into the state at hand, where it is
// the next one, so that its readers need not ask the log. It returns the
// commit if it had to decode it.
func (h *Host) overhear(id events.SessionID, m bus.LiveMessage) *events.Commit {
	var state *projector.State
	s := h.held(id)
	select {
	case s.busy <- struct{}{}:
		defer s.free()
		state = s.state
	default: // somebody appends or reads, and sees it there
	}
	next := state != nil && m.Seq == state.Seq+1
	if m.Seq == 0 || !next && !m.EndsTurn {
		return nil
	}
	c, err := events.Decode(m.Data)
	if err != nil {
		return nil
	}
	if next && state.Apply(events.Entry{Seq: m.Seq, Commit: c}) != nil {
		s.state = nil
	}
	return c
}

// How long a waiter trusts the live subject before it looks at the log: a
// command may name a turn that ended long ago, and a message may be lost.
const (
	firstLook = time.Second
	laterLook = 2 * time.Second
)

type waitingKey struct{}

// WithWaiting has begin called whenever what runs with the context begins to wait
// for a session's turn, and end when it has it.
func WithWaiting(ctx context.Context, begin func() (end func())) context.Context {
	return context.WithValue(ctx, waitingKey{}, begin)
}

// ended waits for the commit that ends the turn.
func (e *ear) ended(ctx context.Context, turn events.TurnID, look time.Duration) error {
	if begin, ok := ctx.Value(waitingKey{}).(func() (end func())); ok {
		defer begin()()
	}
	timer := time.NewTimer(look)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case c := <-e.ends:
			if endsTurn(c, turn) {
				return nil
			}
		case <-timer.C:
			s, err := e.h.State(ctx, e.session)
			if err != nil {
				return err
			}
			found, err := findTurn(s, turn)
			if err != nil || found.record != nil {
				return err
			}
			timer.Reset(laterLook)
		}
	}
}

func endsTurn(c *events.Commit, turn events.TurnID) bool {
	for i := range c.Events {
		ends := c.Events[i].Kind == events.KindTurnCompleted || c.Events[i].Kind == events.KindTurnDiverted
		if ends && c.Events[i].Turn == turn {
			return true
		}
	}
	return false
}
