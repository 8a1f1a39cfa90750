package follow

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.uber.org/zap"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

const (
	// rowEvery is the interval at which the rows of a moving session are written.
	rowEvery = time.Second
	// snapshotEvery limits the commits after the snapshot of a moving session.
	snapshotEvery = 512
	// snapshotTail limits the commits after the snapshot of an idle session.
	snapshotTail = 32
	// idleAfter is the time without commits after which a session counts as idle.
	idleAfter = 3 * time.Second
	// lockedWait is the delay of a mark of a session whose key is not here, for a projector that has it, and of one that is refused until an
	// operator acts.
	lockedWait = 5 * time.Second
	// fetchWait limits the time of one fetch of marks.
	fetchWait = 5 * time.Second
	// sweepEvery is the interval at which all sessions are checked for missed marks.
	sweepEvery = time.Minute
	// projectedSessions limits the cached states of a projector.
	projectedSessions = 256
)

// Projector writes the directory rows, catalogues and snapshots of marked sessions. Any number of projectors may run
// concurrently on any nodes, and any of them may die at any time: their rows have a sequence and never replace newer
// ones. One Projector runs in one goroutine.
type Projector struct {
	b      *bus.Bus
	log    *zap.Logger
	states *lru.Cache[events.SessionID, *cacheEntry]

	indexAgain time.Time // no writes to the index before this, after one failed
}

type cacheEntry struct {
	state *projector.State
	rows  time.Time  // time of the last write of rows
	saved events.Seq // sequence of the newest known snapshot
	cat   int64      // generation of the newest written catalogue
	seen  events.Seq // newest sequence; moved is the time at which it first appeared
	moved time.Time
	index indexing
}

// unsaved reports whether the session is idle and has enough commits after its snapshot for a new one.
func (h *cacheEntry) unsaved() bool { return h.state.Idle() && h.state.Seq > h.saved+snapshotTail }

// NewProjector makes a projector. A nil logger is silent.
func NewProjector(b *bus.Bus, log *zap.Logger) *Projector {
	if log == nil {
		log = zap.NewNop()
	}
	states, _ := lru.New[events.SessionID, *cacheEntry](projectedSessions) // the size is valid
	return &Projector{b: b, log: log.Named("projector"), states: states}
}

// Run handles marks until ctx ends, and sweeps periodically for missed marks.
func (p *Projector) Run(ctx context.Context) error {
	marks, err := p.b.Dirty(ctx)
	if err != nil {
		return err
	}
	var swept time.Time
	for ctx.Err() == nil {
		err := marks.Fetch(ctx, 64, fetchWait, func(m *bus.DirtyMark) { p.handle(ctx, m) })
		if err == nil && time.Since(swept) > sweepEvery {
			err, swept = p.sweep(ctx), time.Now()
		}
		if err != nil && ctx.Err() == nil {
			p.log.Warn("follow marks", zap.Error(err))
			delay.Sleep(ctx, time.Second)
		}
	}
	return nil
}

// sweep marks every session whose row is behind its stream, or newer: then the stream was replaced by an older one.
func (p *Projector) sweep(ctx context.Context) error {
	for hot, err := range p.b.Hot(ctx) {
		if err != nil {
			return err
		}
		stored, err := p.b.Directory().Get(ctx, hot.ID)
		if errors.Is(err, events.ErrLocked) {
			continue
		}
		if err != nil {
			return err
		}
		var row Directory
		if json.Unmarshal(stored.Value, &row) != nil || row.Seq != hot.Last {
			_ = p.b.MarkDirty(hot.ID)
		}
	}
	return ctx.Err()
}

func (p *Projector) handle(ctx context.Context, j *bus.DirtyMark) {
	cached := p.entry(j.Session)
	if wait := rowEvery - time.Since(cached.rows); wait > 0 {
		_ = j.Nak(wait)
		return
	}
	err := p.project(ctx, j.Session, cached)
	switch {
	case err == nil && (cached.unsaved() || cached.index.behind(cached.state)):
		_ = j.Nak(max(idleAfter, time.Until(p.indexAgain))) // a new commit sends another mark
	case err == nil:
		_ = j.Ack()
	case errors.Is(err, events.ErrNoSession):
		p.states.Remove(j.Session)
		_ = j.Ack()
	case errors.Is(err, events.ErrLocked), errors.As(err, new(*events.LostError)):
		cached.state = nil
		_ = j.Nak(lockedWait)
	default:
		cached.state = nil
		p.log.Warn("project", zap.String("session", string(j.Session)), zap.Error(err))
		_ = j.Nak(rowEvery)
	}
}

func (p *Projector) entry(session events.SessionID) *cacheEntry {
	cached, ok := p.states.Get(session)
	if !ok {
		cached = &cacheEntry{}
		p.states.Add(session, cached)
	}
	return cached
}

// Project writes one session's rows, and its snapshot if it needs a new one, immediately.
func (p *Projector) Project(ctx context.Context, session events.SessionID) error {
	cached := &cacheEntry{}
	if err := p.project(ctx, session, cached); err != nil || !cached.unsaved() {
		return err
	}
	_, err := Save(ctx, p.b, cached.state)
	return err
}

func (p *Projector) project(ctx context.Context, session events.SessionID, cached *cacheEntry) error {
	if cached.state == nil {
		s, stored, err := restore(ctx, p.b, p.b, session)
		if err != nil {
			return err
		}
		cached.state, cached.saved = s, 0
		if stored.Revision != 0 {
			cached.saved = s.Seq
		}
	}
	s := cached.state
	if err := p.tolerated(ctx, session, p.openIndex(ctx, session, &cached.index)); err != nil {
		return err
	}
	resets := s.Resets()
	if err := syncWith(ctx, p.b.Log(), p.b, s, cached.index.follow(s)); err != nil {
		cached.index.builder = nil // it may have a commit that the state does not have
		return err
	}
	if s.Resets() != resets { // what is cached is of lost commits
		if err := rewind(ctx, p.b, s); err != nil {
			return err
		}
		*cached = cacheEntry{state: s}
	}
	if s.Seq != cached.seen {
		cached.seen, cached.moved = s.Seq, time.Now()
	}
	if s.Seq >= cached.saved+snapshotEvery || cached.unsaved() && time.Since(cached.moved) >= idleAfter {
		if _, err := Save(ctx, p.b, s); err != nil {
			return err
		}
		cached.saved = s.Seq
	}
	if err := p.writeRows(ctx, s, cached); err != nil {
		return err
	}
	cached.rows = time.Now()
	return p.tolerated(ctx, session, p.writeIndex(ctx, s, &cached.index))
}

func (p *Projector) writeRows(ctx context.Context, s *projector.State, cached *cacheEntry) error {
	newer, err := putRow(ctx, p.b, s, PlaceHot)
	if err == nil && newer {
		err = rewindIfEnded(ctx, p.b, s)
		cached.index.builder = nil // it may be of the row that was removed
	}
	if err != nil || s.Catalog.Generation == cached.cat {
		return err
	}
	catalog, err := events.EncodePayload(&s.Catalog)
	if err != nil {
		return err
	}
	err = replace(ctx, p.b.Catalogs(), s.Session, catalog, func(old []byte) bool {
		var have projector.Catalog
		return events.DecodePayload(old, &have) != nil || have.Generation < s.Catalog.Generation
	})
	if err == nil {
		cached.cat = s.Catalog.Generation
	}
	return err
}
