package states_test

import (
	"bytes"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/internal/states"
)

// wantHistory requires that a cache has the state of a session's history.
func wantHistory(t *testing.T, cache *states.Cache, b *bus.Bus, id events.SessionID) {
	t.Helper()
	want, err := follow.At(t.Context(), b.Log(), b, id, 1<<40)
	runtest.NoError(t, err)
	got, err := cache.State(t.Context(), id)
	if err != nil || got.Seq != want.Seq || !bytes.Equal(headOf(t, got), headOf(t, want)) {
		t.Errorf("%s: got a state at %d, %v, want that of the history at %d", id, got.Seq, err, want.Seq)
	}
}

// headOf encodes a state.
func headOf(t *testing.T, s *projector.State) []byte {
	t.Helper()
	head, _, err := s.Snapshot()
	runtest.NoError(t, err)
	return head
}

// TestLongStateOverRestoredStore puts an earlier copy of a store back under a cache with a state of lost commits. Others have appended as many when
// the cache receives a commit: the one with the next sequence.
func TestLongStateOverRestoredStore(t *testing.T) {
	t.Parallel()
	const kept, lost = 3, 2
	store := bustest.StartStore(t)
	b, other := store.Open(), store.Open()
	bustest.Write(t, other, sid, 0, kept, "kept")
	store.Save(b, other)
	bustest.Write(t, other, sid, kept, lost, "lost")
	cache, err := states.New(b, 1, 1<<20, 0)
	runtest.NoError(t, err)
	wantHistory(t, cache, other, sid)
	store.Restore(b, other)
	bustest.Write(t, other, sid, kept, lost, "new")
	received := make(chan bus.LiveMessage, 8)
	stop, err := other.OnCommit(sid, func(m bus.LiveMessage) { received <- m })
	runtest.NoError(t, err)
	defer stop()
	bustest.Write(t, other, sid, kept+lost, 1, "next")
	cache.Received(sid, bustest.Receive(t, "the next commit", received))
	wantHistory(t, cache, other, sid)
}

// TestEarlyCommit gives a cache the next commit of its state, as a subscription delivers it, and one that perhaps arrived before a reconnect. The cache
// does not fold the second one.
func TestEarlyCommit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, id := range []events.SessionID{"late", "early"} {
		received := make(chan bus.LiveMessage, 8)
		bustest.Write(t, b.bus, id, 0, 3, "c")
		wantHistory(t, b.cache, b.bus, id)
		stop, err := b.bus.OnCommit(id, func(m bus.LiveMessage) { received <- m })
		runtest.NoError(t, err)
		defer stop()
		bustest.Write(t, b.bus, id, 3, 1, "c")
		next := bustest.Receive(t, "the commit", received)
		next.Early = id == "early"
		b.cache.Received(id, next)
		if folded := b.cache.Known(t.Context(), id, func(s *projector.State) bool { return s.Seq == 4 }); folded == next.Early {
			t.Errorf("%s: got a fold %t", id, folded)
		}
	}
}
