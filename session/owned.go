package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
)

const (
	// makingTime is how long the append of a counted session may take.
	makingTime = 30 * time.Second
	// ownedReload is how often all rows are read, not only those that changed: the directory may have been made anew.
	ownedReload = 10 * time.Minute
)

// owned counts the open sessions of each owner, for [Config.MaxSessionsPerCaller].
// It follows two sources: the rows of the directory that changed since the last
// look, and the commits of this host. Of one session the one with the higher
// sequence counts, so a row that is behind takes nothing back. Where there
// is no limit it is nil, which notes nothing and refuses nothing.
//
//	create: look ──► reserve ──► append ──► note ──► release
//	                    │ at the limit
//	                    ▼
//	                 refused
type owned struct {
	b     *bus.Bus
	limit int

	looking chan struct{} // full while a goroutine reads the directory, which has the fields up to mu
	after   uint64        // revision of the newest row that was read
	loaded  time.Time     // when all rows were read last; zero: never

	mu       sync.Mutex
	sessions map[events.SessionID]ownedSession
	open     map[string]int // counted sessions, by owner
}

// ownedSession is a session that is open, or closed by this host while its row does not say so.
type ownedSession struct {
	owner  string
	seq    events.Seq
	open   bool
	making int // creates of it that go on
}

func (s ownedSession) counted() bool { return s.owner != "" && (s.open || s.making > 0) }

func newOwned(b *bus.Bus, limit int) *owned {
	if limit == 0 {
		return nil
	}
	return &owned{
		b: b, limit: limit, looking: make(chan struct{}, 1),
		sessions: make(map[events.SessionID]ownedSession), open: make(map[string]int),
	}
}

// createCounted is create where the owner has room for one more session.
func (o *opening) createCounted(ctx context.Context, opened *events.SessionOpened, nodes []events.NewNode) error {
	release, err := o.h.owned.reserve(ctx, opened.Owner, o.id)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), makingTime) // of a client that goes away the outcome is noted too
	defer cancel()
	return o.create(ctx, nil, opened, nodes)
}

// reserve counts a session that is about to be made, until release. Errors:
// [*api.LimitError]. An id that is taken is not refused: nothing is made of it.
func (o *owned) reserve(ctx context.Context, owner string, id events.SessionID) (release func(), err error) {
	if owner == "" {
		return func() {}, nil
	}
	if err := o.look(ctx); err != nil {
		return nil, err
	}
	if !o.take(owner, id) {
		if _, err := o.b.Log().Last(ctx, id); err == nil {
			return func() {}, nil
		}
		return nil, o.refusal()
	}
	return func() { o.release(id) }, nil
}

// room refuses to promise more sessions of an owner where there would be too many with them. Errors: [*api.LimitError].
func (o *owned) room(ctx context.Context, owner string, more int) error {
	if o == nil || owner == "" {
		return nil
	}
	if err := o.look(ctx); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open[owner]+more > o.limit {
		return o.refusal()
	}
	return nil
}

func (o *owned) refusal() error {
	return &api.LimitError{What: api.OpenSessions, Limit: o.limit}
}

// take counts a session as being made, where there is room or it is counted already.
func (o *owned) take(owner string, id events.SessionID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	s, known := o.sessions[id]
	if same := known && s.owner == owner && s.counted(); !same && o.open[owner] >= o.limit {
		return false
	}
	if !known {
		s.owner = owner
	}
	s.making++
	o.put(id, s)
	return true
}

func (o *owned) release(id events.SessionID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.sessions[id]
	s.making--
	o.put(id, s)
}

// roomToBranch refuses a turn that is to go on in a session of its own where
// that, and those of the turns that wait for the same, would be too many. The
// session is made by whichever node works on the turn, which does not ask again.
func (o *owned) roomToBranch(ctx context.Context, s *projector.State) error {
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
	return o.room(ctx, s.Owner, more)
}

// note takes what a commit of this host made of a session.
func (o *owned) note(s *projector.State) {
	if o == nil || s.Owner == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.learn(s.Session, ownedSession{owner: s.Owner, seq: s.Seq, open: isOpen(s.Status)})
}

func isOpen(status projector.Status) bool {
	return status == projector.StatusOpen || status == projector.StatusOpening
}

// learn takes news of a session, unless there is newer. The caller holds mu.
func (o *owned) learn(id events.SessionID, now ownedSession) {
	have := o.sessions[id]
	if now.seq < have.seq {
		return
	}
	now.making = have.making
	o.put(id, now)
}

// put replaces what is known of a session. The caller holds mu.
func (o *owned) put(id events.SessionID, now ownedSession) {
	if have := o.sessions[id]; have.counted() {
		if o.open[have.owner]--; o.open[have.owner] == 0 {
			delete(o.open, have.owner)
		}
	}
	if now.counted() {
		o.open[now.owner]++
	}
	if o.sessions[id] = now; !now.open && now.seq == 0 && now.making == 0 {
		delete(o.sessions, id)
	}
}

// look reads what changed in the directory.
func (o *owned) look(ctx context.Context) error {
	select {
	case o.looking <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-o.looking }()
	began := time.Now()
	all := began.Sub(o.loaded) >= ownedReload
	if all {
		o.after = 0
	}
	rows := make(map[events.SessionID]bool)
	err := o.rows(ctx, rows)
	if err == nil && o.loaded.IsZero() {
		err = o.withoutRows(ctx, rows)
	}
	if err != nil {
		return fmt.Errorf("count open sessions: %w", err)
	}
	if all {
		o.loaded = began
	}
	return nil
}

// rows takes the rows that changed, and adds their sessions to a set.
func (o *owned) rows(ctx context.Context, seen map[events.SessionID]bool) error {
	for stored, err := range o.b.Directory().Changed(ctx, o.after) {
		if err != nil {
			return err
		}
		var row follow.Directory
		if json.Unmarshal(stored.Value, &row) == nil { // else a projector writes it anew
			seen[row.Session] = true
			o.row(&row)
		}
		o.after = stored.Revision
	}
	return nil
}

func (o *owned) row(row *follow.Directory) {
	now := ownedSession{owner: row.Owner, seq: row.Seq, open: isOpen(row.Status)}
	o.mu.Lock()
	defer o.mu.Unlock()
	have, known := o.sessions[row.Session]
	switch {
	case now.open && now.owner != "":
		o.learn(row.Session, now)
	case known && now.seq >= have.seq: // nothing newer can make it count
		o.put(row.Session, ownedSession{owner: have.owner, making: have.making})
	}
}

// withoutRows takes the sessions that no row is written of yet, as the process may have just been started again.
func (o *owned) withoutRows(ctx context.Context, rows map[events.SessionID]bool) error {
	for hot, err := range o.b.Hot(ctx) {
		if err != nil {
			return err
		}
		if rows[hot.ID] || hot.Last == 0 {
			continue
		}
		for entry, err := range o.b.Log().Read(ctx, hot.ID, 1) {
			if errors.Is(err, events.ErrNoSession) || errors.Is(err, events.ErrMalformed) {
				break // it was erased, or nothing reads it
			}
			if err != nil {
				return err
			}
			if opened, ok := entry.Commit.Events[0].Payload.(*events.SessionOpened); ok && opened.Owner != "" {
				o.mu.Lock()
				o.learn(hot.ID, ownedSession{owner: opened.Owner, seq: entry.Seq, open: true})
				o.mu.Unlock()
			}
			break
		}
	}
	return nil
}
