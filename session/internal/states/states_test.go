package states_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/internal/states"
)

func TestMain(m *testing.M) {
	bustest.VerifyTestMain(m)
}

const sid events.SessionID = "s"

// bundle is a server with a cache of one state.
type bundle struct {
	t     *testing.T
	bus   *bus.Bus
	cache *states.Cache
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{t: t, bus: bustest.Open(t, bustest.Server(t, busembed.Config{}))}
	var err error
	if b.cache, err = states.New(b.bus, 1, 1<<20, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// append appends a commit behind the cache, as another process does.
func (b *bundle) append(id events.SessionID, at events.Seq, p events.Payload) {
	b.t.Helper()
	c := &events.Commit{
		ID: events.CommitID(string(id) + "-" + string(rune('a'+at))), Session: id, At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "n"},
		Events: []events.Event{events.Of("", p)},
	}
	_, err := b.bus.Log().Append(b.t.Context(), c, at)
	runtest.WantError(b.t, "append", err, nil)
}

// TestUnusedSubscriptionsEnd has waiters of many sessions end, and none come after them. The subscriptions end by themselves; that
// of a waiter that stays is kept.
func TestUnusedSubscriptionsEnd(t *testing.T) {
	t.Parallel()
	b := bustest.Open(t, bustest.Server(t, busembed.Config{}))
	cache, err := states.New(b, 1, 1<<20, 20*time.Millisecond)
	runtest.NoError(t, err)
	var stays *states.Waiter
	for n := range 50 {
		w, err := cache.Subscribe(events.SessionID(fmt.Sprint("s", n)), func(bus.LiveMessage) bool { return true })
		runtest.NoError(t, err)
		if n == 7 {
			stays = w
			continue
		}
		w.Close()
	}
	bustest.Eventually(t, "the subscription of the waiter alone", func() bool { return cache.Subscriptions() <= 1 })
	if got := cache.Subscriptions(); got != 1 {
		t.Errorf("got %d subscriptions, want that of the waiter", got)
	}
	stays.Close()
	bustest.Eventually(t, "no subscription without a waiter", func() bool { return cache.Subscriptions() == 0 })
}

func closed(s *projector.State) (bool, error) { return s.Status == projector.StatusClosed, nil }

// TestWaitIsWoken: a live commit makes a condition true. The waiter returns before its own read of the log, which is due
// after an hour.
func TestWaitIsWoken(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(sid, 0, &events.SessionOpened{})
	if s, err := b.cache.State(t.Context(), sid); err != nil || s.Seq != 1 {
		t.Fatalf("got %+v, %v, want sequence 1", s, err)
	}
	w, err := b.cache.Subscribe(sid, func(bus.LiveMessage) bool { return true })
	runtest.NoError(t, err)
	defer w.Close()
	b.append(sid, 1, &events.SessionClosed{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	runtest.NoError(t, w.Wait(ctx, time.Hour, closed))
	if !b.cache.Known(t.Context(), sid, func(s *projector.State) bool { return s.Seq == 2 }) {
		t.Error("the cached state does not have the live commit")
	}
}

// TestWaitReadsTheLog: no live commit wakes the waiter. Its own reads of the log find the condition true.
func TestWaitReadsTheLog(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(sid, 0, &events.SessionOpened{})
	w, err := b.cache.Subscribe(sid, func(bus.LiveMessage) bool { return false })
	runtest.NoError(t, err)
	defer w.Close()
	checks := 0
	err = w.Wait(t.Context(), 0, func(s *projector.State) (bool, error) {
		if checks++; checks == 1 { // after this check the log changes
			go b.append(sid, 1, &events.SessionClosed{})
		}
		return closed(s)
	})
	if err != nil || checks < 2 {
		t.Errorf("got %v after %d checks, want no error after 2 or more", err, checks)
	}
}

// TestCacheDropsOldest loads a second session into a cache of one state.
func TestCacheDropsOldest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, id := range []events.SessionID{sid, "t"} {
		b.append(id, 0, &events.SessionOpened{})
		_, err := b.cache.State(t.Context(), id)
		runtest.NoError(t, err)
	}
	loaded := func(*projector.State) bool { return true }
	if b.cache.Known(t.Context(), sid, loaded) {
		t.Error("the cache has the first session")
	}
}

// TestInvalidIDsHaveNoEntry calls every method with ids that no session has. A cache of one state keeps the one that it has.
func TestInvalidIDsHaveNoEntry(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(sid, 0, &events.SessionOpened{})
	_, err := b.cache.State(t.Context(), sid)
	runtest.NoError(t, err)
	loaded := func(*projector.State) bool { return true }
	refuse := map[string]func(context.Context, events.SessionID) error{
		"Lock": func(ctx context.Context, id events.SessionID) error { _, err := b.cache.Lock(ctx, id); return err },
		"LockYielding": func(ctx context.Context, id events.SessionID) error {
			_, _, err := b.cache.LockYielding(ctx, id, time.Now())
			return err
		},
		"State": func(ctx context.Context, id events.SessionID) error { _, err := b.cache.State(ctx, id); return err },
		"Inspect": func(ctx context.Context, id events.SessionID) error {
			return b.cache.Inspect(ctx, id, true, func(*projector.State) error { return nil })
		},
	}
	find := map[string]func(context.Context, events.SessionID) (found bool){
		"Known": func(ctx context.Context, id events.SessionID) bool { return b.cache.Known(ctx, id, loaded) },
		"Take":  func(ctx context.Context, id events.SessionID) bool { return b.cache.Take(ctx, id) != nil },
		"Known after Return": func(ctx context.Context, id events.SessionID) bool {
			var s projector.State
			s.Session = id
			b.cache.Return(ctx, &s)
			return b.cache.Known(ctx, id, loaded)
		},
	}
	for _, id := range []events.SessionID{"", "a b", "a.b", "*", ">", "\x00", events.SessionID(strings.Repeat("x", events.MaxIDBytes+1)), events.SessionID(strings.Repeat("x", 1<<20))} {
		keeps := func(method string) {
			t.Helper()
			if !b.cache.Known(t.Context(), sid, loaded) {
				t.Fatalf("%s of %.10q dropped the state of another session", method, id)
			}
		}
		for name, call := range refuse {
			runtest.WantError(t, fmt.Sprintf("%s of %.10q", name, id), call(t.Context(), id), events.ErrInvalidID)
			keeps(name)
		}
		for name, call := range find {
			if call(t.Context(), id) {
				t.Errorf("%s of %.10q: got a state, want none", name, id)
			}
			keeps(name)
		}
	}
}

// TestUnknownIDsDropNothing reads sessions that do not exist, some at the same time. A cache of one state keeps the one
// that it has, and no entry of the others.
func TestUnknownIDsDropNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(sid, 0, &events.SessionOpened{})
	_, err := b.cache.State(t.Context(), sid)
	runtest.NoError(t, err)
	var all sync.WaitGroup
	for n := range 32 {
		all.Go(func() {
			_, err := b.cache.State(t.Context(), events.SessionID(fmt.Sprint("unknown", n/2)))
			runtest.WantError(t, "unknown session", err, events.ErrNoSession)
		})
	}
	all.Wait()
	if !b.cache.Known(t.Context(), sid, func(*projector.State) bool { return true }) {
		t.Error("the state of the session that exists was dropped")
	}
	runtest.Equal(t, "entries without a state", b.cache.Empty(), 0)
}

// TestLiveCommitWithoutLog: a live commit changes the cached state without a read of the log. If the state is in use at
// that moment, a waiter that the commit wakes reads the log instead.
func TestLiveCommitWithoutLog(t *testing.T) {
	t.Parallel()
	for _, inUse := range []bool{false, true} {
		b := setup(t)
		b.append(sid, 0, &events.SessionOpened{})
		_, err := b.cache.State(t.Context(), sid)
		runtest.NoError(t, err)
		received := make(chan events.Seq, 1)
		w, err := b.cache.Subscribe(sid, func(m bus.LiveMessage) bool { received <- m.Seq; return true })
		runtest.NoError(t, err)
		defer w.Close()
		unlock := func() {}
		if inUse {
			e, err := b.cache.Lock(t.Context(), sid)
			runtest.NoError(t, err)
			unlock = e.Unlock
		}
		b.append(sid, 1, &events.SessionClosed{})
		<-received
		unlock()
		if got := b.cache.Known(t.Context(), sid, func(s *projector.State) bool { return s.Seq == 2 }); got == inUse {
			t.Errorf("in use: %v: the cached state has the commit: %v", inUse, got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		runtest.WantError(t, fmt.Sprintf("in use: %v", inUse), w.Wait(ctx, time.Hour, closed), nil)
	}
}
