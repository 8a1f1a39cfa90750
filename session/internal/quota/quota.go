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

// Counter counts the open sessions of each owner. It follows two sources: the rows of the directory that changed
// since the last read, and the commits of this process. Where both have a session, the higher sequence counts, so a row
// that is behind undoes nothing. A nil Counter has no limit: it records nothing and refuses nothing.
//
//	create: refresh ──► reserve ──► append ──► Record ──► release
//	                       │ at the limit
//	                       ▼
//	                    refused
type Counter struct {
	b     *bus.Bus
	limit int

	refreshing chan struct{} // full while a goroutine reads the directory; that goroutine has the fields up to mu
	after      uint64        // revision of the newest row that was read
	loaded     time.Time     // time of the last read of all rows; zero: never

	mu       sync.Mutex
	sessions map[events.SessionID]entry
	open     map[string]int // counted sessions, by owner
}

// entry is a session that is open, or that this process closed and whose row does not say so yet.
type entry struct {
	owner    string
	seq      events.Seq
	open     bool
	creating int // creations in progress
}

func (e entry) counted() bool { return e.owner != "" && (e.open || e.creating > 0) }

// New makes a counter of at most limit open sessions for each owner; nil where limit is 0.
func New(b *bus.Bus, limit int) *Counter {
	if limit == 0 {
		return nil
	}
	return &Counter{
		b: b, limit: limit, refreshing: make(chan struct{}, 1),
		sessions: make(map[events.SessionID]entry), open: make(map[string]int),
	}
}

// Reserve counts a session before its creation, until release. It does not refuse an id that exists, because its
// creation makes no session. Errors: [*api.LimitError].
func (c *Counter) Reserve(ctx context.Context, owner string, id events.SessionID) (release func(), err error) {
	if c == nil || owner == "" {
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
	if c == nil || s.Owner == "" {
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
	if c.open[s.Owner]+more > c.limit {
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
	c.update(s.Session, entry{owner: s.Owner, seq: s.Seq, open: isOpen(s.Status)})
}

func (c *Counter) refusal() error {
	return &api.LimitError{What: api.OpenSessions, Limit: c.limit}
}

// reserve counts a session under creation, unless the owner is at the limit and the session is not counted yet.
func (c *Counter) reserve(owner string, id events.SessionID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, known := c.sessions[id]
	if same := known && e.owner == owner && e.counted(); !same && c.open[owner] >= c.limit {
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
	if old := c.sessions[id]; old.counted() {
		if c.open[old.owner]--; c.open[old.owner] == 0 {
			delete(c.open, old.owner)
		}
	}
	if now.counted() {
		c.open[now.owner]++
	}
	if c.sessions[id] = now; !now.open && now.seq == 0 && now.creating == 0 {
		delete(c.sessions, id)
	}
}
