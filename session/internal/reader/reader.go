package reader

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/states"
	"github.com/lash-go/lash/session/memory"
)

// Reader reads sessions. It is safe for concurrent use.
type Reader struct {
	b      *bus.Bus
	log    events.Log
	states *states.Cache

	searches *searches
}

// New makes a reader that keeps the states of that many sessions, 0 is 1024, with that many bytes, 0 is a twelfth of the machine's memory, and idle subscriptions as [states.New] says.
func New(b *bus.Bus, sessions int, bytes int64, idle time.Duration) (*Reader, error) {
	cache, err := states.New(b, cmp.Or(max(sessions, 0), 1024), cmp.Or(bytes, memory.Divide(0).States), max(idle, 0))
	if err != nil {
		return nil, err
	}
	return &Reader{b: b, log: b.Log(), states: cache, searches: newSearches()}, nil
}

// Cache is the reader's cache of states. A host and a watcher of the process share it.
func (r *Reader) Cache() *states.Cache { return r.states }

// State is the session's state now: a copy that nothing changes later.
func (r *Reader) State(ctx context.Context, id events.SessionID) (*projector.State, error) {
	return r.states.State(ctx, id)
}

// View is the conversation as it stands, in the current frame.
func (r *Reader) View(ctx context.Context, id events.SessionID) (projector.ReadView, error) {
	s, err := r.State(ctx, id)
	if err != nil {
		return projector.ReadView{}, err
	}
	return s.View()
}

// StateAt is the session's state as it was at seq.
func (r *Reader) StateAt(ctx context.Context, id events.SessionID, seq events.Seq) (*projector.State, error) {
	err := r.Authorize(ctx, id)
	if err == nil {
		size := int64(0) // of the state that was authorized
		r.states.Known(ctx, id, func(now *projector.State) bool { size = now.Bytes(); return true })
		err = memory.Take(ctx, size)
	}
	if err != nil {
		return nil, err
	}
	return follow.ReadAt(ctx, r.log, r.b, id, seq)
}

// Authorize refuses a session that the context's caller may not read, before a read of the log that needs no state.
// Errors: those of [api.Authorize].
func (r *Reader) Authorize(ctx context.Context, id events.SessionID) error {
	if _, ok := api.CallerOf(ctx); !ok {
		return nil
	}
	s, err := r.states.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer s.Unlock()
	return s.Load(ctx, true)
}

// ViewAt implements [api.Finder].
func (r *Reader) ViewAt(ctx context.Context, id events.SessionID, seq events.Seq) (projector.ReadView, error) {
	if seq == 0 {
		return projector.ReadView{}, &events.FieldError{Field: "at", Reason: "is 0, the first sequence is 1", Err: events.ErrInvalid}
	}
	s, err := r.StateAt(ctx, id, seq)
	if err == nil && s.Seq < seq {
		err = &events.FieldError{Field: "at", Reason: fmt.Sprintf("is %d, the last sequence is %d", seq, s.Seq), Err: events.ErrInvalid}
	}
	if err != nil {
		return projector.ReadView{}, err
	}
	return s.View()
}
