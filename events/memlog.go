package events

import (
	"context"
	"fmt"
	"iter"
	"sync"
)

// MemLog is a [Log] in memory, for tests, simulations and loaded archives. Commits pass through the codec, as on the
// wire. The zero value is ready for use.
type MemLog struct {
	mu       sync.Mutex
	sessions map[SessionID]*memSession
}

type memSession struct {
	first Seq // sequence of commits[0]
	raw   [][]byte
	ids   map[CommitID]Seq
}

// Append implements [Log].
func (l *MemLog) Append(ctx context.Context, c *Commit, expected Seq) (Seq, error) {
	data, err := Encode(c)
	if err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("append to %s: %w", c.Session, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sessions[c.Session]
	if s == nil {
		if expected != 0 {
			return 0, fmt.Errorf("append to %s: %w", c.Session, ErrNoSession)
		}
		s = l.createLocked(c.Session, 1)
	}
	return s.appendLocked(c, data, expected)
}

func (l *MemLog) createLocked(id SessionID, first Seq) *memSession {
	if l.sessions == nil {
		l.sessions = make(map[SessionID]*memSession)
	}
	s := &memSession{first: first, ids: make(map[CommitID]Seq)}
	l.sessions[id] = s
	return s
}

func (s *memSession) last() Seq { return s.first + Seq(len(s.raw)) - 1 }

func (s *memSession) appendLocked(c *Commit, data []byte, expected Seq) (Seq, error) {
	last := s.last()
	switch seq := s.ids[c.ID]; {
	case seq != 0:
		return seq, nil
	case checksExpected && last != expected:
		return 0, &ConflictError{Session: c.Session, Expected: expected, Last: last}
	}
	s.add(c.ID, data)
	return last + 1, nil
}

// add stores without checks. If two commits have the same id, the first one is found by it.
func (s *memSession) add(id CommitID, data []byte) {
	s.raw = append(s.raw, data)
	if s.ids[id] == 0 {
		s.ids[id] = s.last()
	}
}

// Read implements [Log].
func (l *MemLog) Read(ctx context.Context, session SessionID, from Seq) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		l.mu.Lock()
		s := l.sessions[session]
		if s == nil {
			l.mu.Unlock()
			yield(Entry{}, fmt.Errorf("read %s: %w", session, ErrNoSession))
			return
		}
		first, raw, last := s.first, s.raw, s.last()
		l.mu.Unlock()
		if from > last+1 {
			yield(Entry{}, fmt.Errorf("read %s at %d: %w", session, from, ErrShorter))
			return
		}
		for i, data := range raw {
			seq := first + Seq(i)
			if seq < from {
				continue
			}
			if err := ctx.Err(); err != nil {
				yield(Entry{}, err)
				return
			}
			e, err := DecodeEntry(seq, data)
			if err != nil {
				err = fmt.Errorf("read %s at %d: %w", session, seq, err)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Last implements [Log].
func (l *MemLog) Last(ctx context.Context, session SessionID) (Seq, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("last of %s: %w", session, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sessions[session]
	if s == nil {
		return 0, fmt.Errorf("last of %s: %w", session, ErrNoSession)
	}
	return s.last(), nil
}
