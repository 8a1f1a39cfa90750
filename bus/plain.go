package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/bodykey"
)

// plainGrace is how long after the store's first keys a plain commit in a stream counts as one of a node that was started before
// them.
const plainGrace = time.Minute

// marks caches the last plain and the first encrypted commit of each session, as far as it was read with keys.
type marks struct {
	merging sync.Mutex
	*lru.Cache[events.SessionID, events.Mark]
}

func (m *marks) get(session events.SessionID) events.Mark {
	mark, _ := m.Get(session)
	return mark
}

// merge adds what a read or an append found: the earliest encrypted commit, and the last plain one before it.
func (m *marks) merge(session events.SessionID, found events.Mark) {
	m.merging.Lock()
	defer m.merging.Unlock()
	known := m.get(session)
	if known.From == 0 || found.From != 0 && found.From < known.From {
		known.From = found.From
	}
	known.Plain = max(known.Plain, found.Plain)
	m.Add(session, known)
}

// plainCheck refuses, for a bus with keys, the plain commits of one read that no node can have written:
//
//	commit                                             guard
//	after an encrypted one of its session              [events.Mark]; of the commits before the read it is looked up
//	                                                   once for each session, at the first plain commit
//	in a stream, stored later than plainGrace after    the server's time of the last plain commit
//	the store's first keys
//
// Commits that were archived plain have no time of their own any more: only the first rule is for them. So a bus without the keys
// archives nothing of a store that has some, see [Bus.Archive].
type plainCheck struct {
	l       Log
	session events.SessionID
	mark    events.Mark
	known   bool       // the commits before the read are counted in mark
	inTime  events.Seq // last plain commit whose time was looked at
}

// checkPlain is nil for a bus without keys.
func (l Log) checkPlain(session events.SessionID, from events.Seq) *plainCheck {
	if l.b.bodies.keys == nil {
		return nil
	}
	c := &plainCheck{l: l, session: session, known: from <= 1}
	known := l.b.bodies.marks.get(session)
	c.inTime = known.Plain
	if known.From != 0 && known.From < from {
		c.mark.From, c.known = known.From, true
	} else if known.Plain+1 >= from {
		c.known = true
	}
	return c
}

// next checks the next commit of the read.
func (c *plainCheck) next(ctx context.Context, e events.Entry) error {
	if c == nil {
		return nil
	}
	if !c.known && c.mark.From == 0 && e.Commit.IsPlain() {
		if err := c.lookBack(ctx, e.Seq); err != nil {
			return err
		}
	}
	wasPlain := c.mark.From == 0
	if err := c.mark.Next(e); err != nil {
		return err
	}
	if !wasPlain || c.mark.From == 0 {
		return nil
	}
	return c.end(ctx)
}

// lookBack reads the commits before a sequence that this bus has not read yet.
func (c *plainCheck) lookBack(ctx context.Context, seq events.Seq) error {
	c.known = true
	for e, err := range c.l.read(ctx, c.session, c.l.b.bodies.marks.get(c.session).Plain+1) {
		if err != nil {
			return err
		}
		if e.Seq >= seq || c.mark.From != 0 {
			break
		}
		if err := c.mark.Next(e); err != nil {
			return err
		}
	}
	return nil
}

// end checks the time of the last plain commit, and stores the mark.
func (c *plainCheck) end(ctx context.Context) error {
	if c == nil {
		return nil
	}
	if c.mark.Plain > c.inTime {
		if err := c.storedInTime(ctx, c.mark.Plain); err != nil {
			return err
		}
		c.inTime = c.mark.Plain
	}
	if c.mark != (events.Mark{}) {
		c.l.b.bodies.marks.merge(c.session, c.mark)
	}
	return nil
}

// storedInTime compares the server's time of a plain commit with that of the store's first keys. Times of one stream do not go
// back: the last plain commit is the latest. The two times can come from two servers: the leader of the session's stream, and the
// leader of the bucket that has the keys' time. So a plain commit is accepted for plainGrace after the first keys, and longer by
// as much as the clock of the session's leader is behind. If that clock is ahead by more than plainGrace, a valid commit just
// before the first keys is refused.
func (c *plainCheck) storedInTime(ctx context.Context, seq events.Seq) error {
	since := c.l.b.bodies.since.Load()
	if since == 0 {
		return nil
	}
	loc, err := c.l.accepts(c.l.b.locateFrom(ctx, c.session, seq))
	if err != nil || loc.stream == "" || seq < loc.first {
		return err
	}
	at, err := c.l.b.storedAt(ctx, loc.stream, seq)
	if errors.Is(err, ErrNotFound) || errors.Is(err, events.ErrNoSession) { // it was archived meanwhile
		return nil
	}
	if latest := events.Millis(since).Time().Add(plainGrace); err == nil && at.After(latest) {
		err = fmt.Errorf("%w: commit %d of session %s has plain payloads, and was stored at %s: the store is encrypted since %s: a writer without its key made it",
			events.ErrMalformed, seq, c.session, at.UTC().Format(time.RFC3339), events.Millis(since).Time().UTC().Format(time.RFC3339))
	}
	return err
}

// storedAt is when the server stored a message of a stream; the leader answers.
func (b *Bus) storedAt(ctx context.Context, stream string, seq events.Seq) (at time.Time, err error) {
	err = b.once(ctx, func(ctx context.Context) error {
		s, err := b.js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		msg, err := s.GetMsg(ctx, uint64(seq))
		if err == nil {
			at = msg.Time
		}
		return err
	})
	return at, err
}

// decodeAlone is [Bus.decodeCommit] for one commit that did not come from a read. With keys a plain one is not judged here:
// [events.ErrOutcomeUnknown], and a read judges it.
func (b *Bus) decodeAlone(seq events.Seq, data []byte) (events.Entry, error) {
	e, err := b.decodeCommit(seq, data)
	if err == nil && b.bodies.keys != nil && e.Commit.IsPlain() {
		err = fmt.Errorf("%w: commit %d of session %s is plain: read it from the log", events.ErrOutcomeUnknown, seq, e.Commit.Session)
	}
	return e, err
}

// sinceKey is the key of the time since when the store's bodies are encrypted, in the bucket of manifests.
const sinceKey = "=bodies-since"

// agreeSince reads since when the store's bodies are encrypted. The first node with keys writes it, and a node with another
// current key encrypts it again, so that older keys can be forgotten.
func (b *Bus) agreeSince(ctx context.Context) error {
	for try := 1; ; try++ {
		err := b.agreeSinceOnce(ctx)
		if !errors.Is(err, events.ErrMoved) {
			return err
		}
		if err := pause(ctx, try); err != nil { // another node wrote first
			return err
		}
	}
}

func (b *Bus) agreeSinceOnce(ctx context.Context) error {
	stored, revision, err := b.fact(ctx, sinceKey)
	if err != nil || revision == 0 && b.reader {
		return err
	}
	keys, text := b.bodies.keys, []byte(nil)
	if revision == 0 {
		text = strconv.AppendInt(nil, int64(b.Millis()), 10)
	} else if text, err = keys.Load(stored, sinceKey); errors.Is(err, events.ErrLocked) {
		return nil // its key was forgotten by all nodes at once: the rule of the mark stays
	}
	since, parseErr := strconv.ParseInt(string(text), 10, 64)
	if err = errors.Join(err, parseErr); err != nil || revision != 0 && !bodykey.IsStored(stored) {
		return fmt.Errorf("%w: the time since when bodies are encrypted: %w", events.ErrMalformed, err)
	}
	b.bodies.since.Store(since)
	if b.reader || bodykey.KeyOfStored(stored) == keys.Current() {
		return nil
	}
	if stored, err = keys.Store(text, sinceKey); err == nil {
		_, err = b.Manifests().putStored(ctx, sinceKey, stored, revision)
	}
	return err
}
