package quota

import (
	"context"
	"sync"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// Limits of an owner. 0 is any number.
type Limits struct {
	Sessions int   // open ones
	Stored   int64 // bytes of all, see [projector.Head]
}

// Counter counts the open sessions of each owner, and the bytes that the owner's sessions have stored. It follows two sources: the rows of the directory that changed
// since the last read, and the commits of this process. Where both have a session, the higher sequence counts, so a row
// that is behind undoes nothing. A nil Counter has no limit: it records nothing and refuses nothing.
//
//	create: refresh ──► reserve ──► append ──► Record ──► release
//	                       │ at the limit
//	                       ▼
//	                    refused
type Counter struct {
	b      *bus.Bus
	limits Limits

	refreshing chan struct{} // full while a goroutine reads the directory; that goroutine has the fields up to mu
	after      uint64        // revision of the newest row that was read
	loaded     time.Time     // time of the last read of all rows; zero: never

	mu       sync.Mutex
	sessions map[events.SessionID]entry
	owners   map[string]usage
}

// usage is what an owner has.
type usage struct {
	open   int   // counted sessions
	stored int64 // bytes
}

// entry is a session that is open, or that this process closed and whose row does not say so yet; with a limit of bytes, any session.
type entry struct {
	owner    string
	seq      events.Seq
	stored   int64
	open     bool
	creating int // creations in progress
}

func (e entry) counted() bool { return e.owner != "" && (e.open || e.creating > 0) }

// New makes a counter; nil where nothing is limited.
func New(b *bus.Bus, limits Limits) *Counter {
	if limits == (Limits{}) {
		return nil
	}
	return &Counter{
		b: b, limits: limits, refreshing: make(chan struct{}, 1),
		sessions: make(map[events.SessionID]entry), owners: make(map[string]usage),
	}
}

// Stored returns the bytes of each owner; nil where they are not limited, and so not counted.
func (c *Counter) Stored(ctx context.Context) (map[string]int64, error) {
	if c == nil || c.limits.Stored == 0 {
		return nil, nil
	}
	if err := c.refresh(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]int64, len(c.owners))
	for owner, has := range c.owners {
		all[owner] = has.stored
	}
	return all, nil
}

// CheckStored refuses what would add to the sessions of an owner whose limit of bytes is reached. Errors: [*api.LimitError].
func (c *Counter) CheckStored(ctx context.Context, owner string) error {
	if c == nil || owner == "" || c.limits.Stored == 0 {
		return nil
	}
	if err := c.refresh(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owners[owner].stored < c.limits.Stored {
		return nil
	}
	return &api.LimitError{What: api.StoredBytes, Limit: int(c.limits.Stored)}
}

// Reserve counts a session before its creation, until release. It does not refuse an id that exists, because its
// creation makes no session. Errors: [*api.LimitError].
func (c *Counter) Reserve(ctx context.Context, owner string, id events.SessionID) (release func(), err error) {
	if c == nil || owner == "" {
		return func() {}, nil
	}
	if err := c.CheckStored(ctx, owner); err != nil {
		return nil, err
	}
	if c.limits.Sessions == 0 {
		return func() {}, nil
	}
	if err := c.refresh(ctx); err != nil {
		return nil, err
	}
	if !c.reserve(owner, id) {
		if _, err := c.b.Log().Last(ctx, id); err == nil {
			return func() {}, nil
		}
		return nil, c.refusal()
	}
	return func() { c.release(id) }, nil
}

// CheckBranch refuses a turn that is to continue in a new session where that session, and those of the turns that
// wait for the same, are above the limit. The node that works on the turn makes the session, and does not check again.
// Errors: [*api.LimitError].
func (c *Counter) CheckBranch(ctx context.Context, s *projector.State) error {
	if c == nil || s.Owner == "" || c.limits.Sessions == 0 {
		return nil
	}
	more := 1
	for i := range s.Queue {
		if s.Queue[i].Busy == events.BusyBranch {
			more++
		}
	}
	for i := range s.Scheduled {
		if s.Scheduled[i].Busy == events.BusyBranch {
			more++
		}
	}
	if err := c.refresh(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owners[s.Owner].open+more > c.limits.Sessions {
		return c.refusal()
	}
	return nil
}

// Record updates the count after a commit of this process.
func (c *Counter) Record(s *projector.State) {
	if c == nil || s.Owner == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.update(s.Session, entry{owner: s.Owner, seq: s.Seq, stored: s.Stored, open: isOpen(s.Status)})
}

func (c *Counter) refusal() error {
	return &api.LimitError{What: api.OpenSessions, Limit: c.limits.Sessions}
}

// reserve counts a session under creation, unless the owner is at the limit and the session is not counted yet.
func (c *Counter) reserve(owner string, id events.SessionID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, known := c.sessions[id]
	if same := known && e.owner == owner && e.counted(); !same && c.owners[owner].open >= c.limits.Sessions {
		return false
	}
	if !known {
		e.owner = owner
	}
	e.creating++
	c.put(id, e)
	return true
}

func (c *Counter) release(id events.SessionID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.sessions[id]
	e.creating--
	c.put(id, e)
}

func isOpen(status projector.Status) bool {
	return status == projector.StatusOpen || status == projector.StatusOpening
}

// update replaces an entry by one of the same or a higher sequence. The caller has mu.
func (c *Counter) update(id events.SessionID, now entry) {
	old := c.sessions[id]
	if now.seq < old.seq {
		return
	}
	now.creating = old.creating
	c.put(id, now)
}

// put replaces an entry, and counts it. The caller has mu.
func (c *Counter) put(id events.SessionID, now entry) {
	c.count(c.sessions[id], -1)
	c.count(now, 1)
	if c.sessions[id] = now; !now.open && now.seq == 0 && now.creating == 0 {
		delete(c.sessions, id)
	}
}

// count adds an entry to what its owner has, or takes it away.
func (c *Counter) count(e entry, sign int) {
	if e.owner == "" {
		return
	}
	has := c.owners[e.owner]
	if e.counted() {
		has.open += sign
	}
	has.stored += int64(sign) * e.stored
	if c.owners[e.owner] = has; has == (usage{}) {
		delete(c.owners, e.owner)
	}
}
