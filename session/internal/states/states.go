package states

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
)

// Cache has the states of the sessions that were used last. It is safe for concurrent use.
type Cache struct {
	b   *bus.Bus
	log events.Log

	mu            sync.Mutex
	entries       *simplelru.LRU[events.SessionID, *Entry] // with states, or that had one
	bytes         int64                                    // of the states of entries
	most          int64                                    // of bytes, but for the last one
	empty         map[events.SessionID]*Entry              // in use, and without a state yet: sessions that may not exist
	subscriptions map[events.SessionID]*subscription
	idle          time.Duration // how long a subscription without waiters is kept
	sweeping      bool          // a search for unused subscriptions is due
}

// New makes a cache of at most size states, at least 1, which have at most so many bytes together, or are one. It keeps a subscription for idle after its last waiter, 0 means
// 30 s: a session that moved once moves again.
func New(b *bus.Bus, size int, bytes int64, idle time.Duration) (*Cache, error) {
	c := &Cache{}
	entries, err := simplelru.NewLRU(size, func(_ events.SessionID, e *Entry) { c.bytes -= e.bytes; e.bytes = 0 })
	if err != nil {
		return nil, fmt.Errorf("cache of %d states: %w", size, err)
	}
	c.b, c.log, c.entries, c.most, c.idle = b, b.Log(), entries, bytes, cmp.Or(idle, idleSubscription)
	c.empty, c.subscriptions = make(map[events.SessionID]*Entry), make(map[events.SessionID]*subscription)
	b.OnRemoval(c.remove)
	return c, nil
}

// Entry is a session's place in the cache. A goroutine locks it before it reads or changes State. A cache that is full
// may drop a locked entry: two entries of a session are possible then, and the log decides between their appends.
type Entry struct {
	State *projector.State // nil: it has to be loaded

	cache   *Cache
	session events.SessionID
	locked  chan struct{} // full while a goroutine has the lock
	users   int           // that have the lock or wait for it; under the cache's lock
	bytes   int64         // of State, while the cache has the entry; under the cache's lock
}

// entry is the session's entry, and makes it the one that was used last. An id without a state takes no other
// session's place: the load may find that no session has it.
func (c *Cache) entry(id events.SessionID) *Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries.Get(id)
	if !ok {
		e = c.empty[id]
	}
	if e == nil {
		e = &Entry{cache: c, session: id, locked: make(chan struct{}, 1)}
		c.empty[id] = e
	}
	e.users++
	return e
}

// leave ends the use of an entry that entry returned. An entry that has a state of so many bytes now is cached; one without goes with
// its last user.
func (c *Cache) leave(e *Entry, loaded bool, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.users--
	if c.empty[e.session] == e {
		if loaded {
			c.entries.Add(e.session, e)
		}
		if loaded || e.users == 0 {
			delete(c.empty, e.session)
		}
	}
	if cached, _ := c.entries.Peek(e.session); loaded && cached == e {
		c.bytes += bytes - e.bytes
		e.bytes = bytes
	}
	for c.bytes > c.most && c.entries.Len() > 1 {
		c.entries.RemoveOldest()
	}
}

// Lock waits for a session's entry until ctx ends. The caller calls [Entry.Unlock]. Decisions of one process about a
// session take turns by this lock, as two at once would only conflict. An id that is no token is an error and gets no
// entry: it may come from a request, and have any size.
func (c *Cache) Lock(ctx context.Context, id events.SessionID) (*Entry, error) {
	if err := events.CheckToken("session", id); err != nil {
		return nil, err
	}
	e := c.entry(id)
	select {
	case e.locked <- struct{}{}:
		return e, nil
	case <-ctx.Done():
		c.leave(e, false, 0)
		return nil, context.Cause(ctx)
	}
}

// Unlock ends the use of the entry.
func (e *Entry) Unlock() {
	loaded, bytes := e.State != nil, int64(0)
	if loaded {
		bytes = e.State.Bytes()
	}
	<-e.locked
	e.cache.leave(e, loaded, bytes)
}

// LockYielding is Lock for a decision that began at a time. Once, it lets older decisions of other processes, and a
// worker of this one, append first. After it yielded, the state may be behind the log.
func (c *Cache) LockYielding(ctx context.Context, id events.SessionID, began time.Time) (e *Entry, yielded bool, err error) {
	if e, err = c.Lock(ctx, id); err != nil || !c.b.MustYield(id, began) {
		return e, false, err
	}
	e.Unlock()
	c.b.Yield(ctx, id, began)
	e, err = c.Lock(ctx, id)
	return e, true, err
}

// Load makes State whole, and as new as the log is now where fresh is set. It authorizes the caller of a request
// on that state. Race with a grant that is taken back:
//
//  1. Load authorizes on the state at sequence n.
//  2. Another host commits the end of the grant at n+1.
//  3. The caller's append expects n and conflicts; the next try loads n+1 and is refused.
func (e *Entry) Load(ctx context.Context, fresh bool) error {
	fresh = fresh || e.State == nil || follow.IsStale(e.cache.b, e.State)
	if !fresh && api.Authorize(ctx, e.session, e.State, nil) != nil {
		fresh = true // only fresh state refuses
	}
	var err error
	switch {
	case e.State == nil:
		e.State, err = follow.Whole(ctx, e.cache.b, e.session)
	case fresh:
		err = follow.Sync(ctx, e.cache.log, e.cache.b, e.State)
	}
	if err != nil {
		e.State = nil
	}
	return api.Authorize(ctx, e.session, e.State, err)
}

// LoadAfterConflict is Load for a state that the log refused, see [follow.SyncAfterConflict].
func (e *Entry) LoadAfterConflict(ctx context.Context) error {
	if e.State == nil {
		return e.Load(ctx, true)
	}
	err := follow.SyncAfterConflict(ctx, e.cache.log, e.cache.b, e.State)
	if err != nil {
		e.State = nil
	}
	return api.Authorize(ctx, e.session, e.State, err)
}

// State is a copy of the session's state now.
func (c *Cache) State(ctx context.Context, id events.SessionID) (s *projector.State, err error) {
	if err := c.Inspect(ctx, id, true, func(now *projector.State) error { s = now.Clone(); return nil }); err != nil {
		return nil, fmt.Errorf("state of %s: %w", id, err)
	}
	return s, nil
}

// Inspect calls inspect with the session's state, as new as the log where fresh is set. inspect must not keep or change it.
func (c *Cache) Inspect(ctx context.Context, id events.SessionID, fresh bool, inspect func(*projector.State) error) error {
	e, err := c.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer e.Unlock()
	if err := e.Load(ctx, fresh); err != nil {
		return err
	}
	return inspect(e.State)
}

// Known reports whether a condition holds of the state that the cache has. It does not read the log.
func (c *Cache) Known(ctx context.Context, id events.SessionID, holds func(*projector.State) bool) bool {
	e, err := c.Lock(ctx, id)
	if err != nil {
		return false
	}
	defer e.Unlock()
	return e.State != nil && holds(e.State)
}

// Take is the state that the cache has, with what was computed from it, for a worker that continues with it; nil where
// there is none. It may be behind the log. The cache keeps a copy.
func (c *Cache) Take(ctx context.Context, id events.SessionID) *projector.State {
	e, err := c.Lock(ctx, id)
	if err != nil {
		return nil
	}
	defer e.Unlock()
	taken := e.State
	if taken != nil {
		e.State = taken.Clone()
	}
	return taken
}

// Return is the inverse of [Cache.Take]: the cache owns the state from then on. The state replaces an older one; it is
// dropped where the cache has none or a newer one.
func (c *Cache) Return(ctx context.Context, state *projector.State) {
	e, err := c.Lock(ctx, state.Session)
	if err != nil {
		return
	}
	defer e.Unlock()
	if e.State != nil && e.State.Seq <= state.Seq {
		e.State = state
	}
}

// remove drops the session.
func (c *Cache) remove(id events.SessionID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries.Remove(id)
	delete(c.empty, id)
}
