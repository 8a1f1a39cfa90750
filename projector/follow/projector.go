package follow

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Directory is a session's row in the directory, as JSON. It is a hint: in a session that moves, it is about one
// second behind the history.
type Directory struct {
	Version   int               `json:"version,omitempty"` // [RowVersion]; rows of earlier versions have a smaller one
	Session   events.SessionID  `json:"session"`
	Seq       events.Seq        `json:"seq"`
	Status    projector.Status  `json:"status"`
	Place     string            `json:"place,omitempty"` // [PlaceHot] or [PlaceCold]
	Parent    events.SessionID  `json:"parent,omitempty"`
	Owner     string            `json:"owner,omitempty"` // empty without an owner, in rows of erased sessions, and in rows of earlier versions
	Labels    map[string]string `json:"labels,omitempty"`
	Readers   []string          `json:"readers,omitempty"` // callers with a grant to read, sorted
	Events    int64             `json:"events"`
	Turns     int64             `json:"turns"`
	Running   events.TurnID     `json:"running,omitempty"`
	Queued    int               `json:"queued"`
	Tasks     int               `json:"tasks"`            // unfinished tasks
	Asks      int               `json:"asks,omitempty"`   // unanswered approval requests
	Waking    bool              `json:"waking,omitempty"` // a monitor's input waits for a turn
	Untold    int64             `json:"untold,omitempty"` // ended turns whose plugins must be notified
	Due       events.Millis     `json:"due_ms,omitempty"` // approximately the earliest time at which something is due: a scheduled turn, a call's result, the end of the time for an answer
	CreatedAt events.Millis     `json:"created_at"`
	UpdatedAt events.Millis     `json:"updated_at"`
	Retain    int64             `json:"retain_ms,omitempty"` // see [events.Config]
	Erased    *Erased           `json:"erased,omitempty"`    // of an erased session
}

// RowVersion is the version of rows that this program writes. Rows of version 0 have no owners, readers and approval
// requests.
const RowVersion = 1

// Places of a session.
const (
	PlaceHot  = "hot"  // it has a live stream
	PlaceCold = "cold" // it is archived; the next append makes it hot
)

// RowOf makes the directory row of a state.
func RowOf(s *projector.State) Directory {
	d := Directory{
		Version: RowVersion, Session: s.Session, Seq: s.Seq, Status: s.Status, Place: PlaceHot, Parent: s.Parent, Labels: s.Labels,
		Owner: s.Owner, Asks: len(s.Questions()),
		Events: s.Events, Turns: s.Turns, Queued: len(s.Queue), CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, Retain: s.Config.RetainMillis,
		Untold: int64(len(s.Untold)),
		Due:    s.EarliestDue(anyCall), Waking: slices.ContainsFunc(s.Monitors, func(m projector.Monitor) bool { return m.Wake != "" }),
	}
	if t := s.Turn(); t != nil {
		d.Running = t.ID
	}
	for _, g := range s.Grants {
		if slices.Contains(g.Rights, events.GrantRead) {
			d.Readers = append(d.Readers, g.To)
		}
	}
	for i := range s.Tasks {
		if s.Tasks[i].Unfinished() {
			d.Tasks++
		}
	}
	return d
}

// anyCall accepts every scheduled result, which is enough for a listing.
func anyCall(*projector.Turn, events.EffectID) bool { return true }

// Inactive reports whether nothing of the session runs, waits, or is being created.
func (d *Directory) Inactive() bool {
	return d.Running == "" && d.Queued == 0 && d.Tasks == 0 && !d.Waking && d.Untold == 0 && d.Status != projector.StatusOpening
}

const (
	// rowEvery is the interval at which the rows of a moving session are written.
	rowEvery = time.Second
	// snapshotEvery limits the commits after the snapshot of a moving session.
	snapshotEvery = 512
	// snapshotTail limits the commits after the snapshot of an idle session.
	snapshotTail = 32
	// idleAfter is the time without commits after which a session counts as idle.
	idleAfter = 3 * time.Second
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
	states map[events.SessionID]*cacheEntry
}

type cacheEntry struct {
	state *projector.State
	rows  time.Time  // time of the last write of rows
	saved events.Seq // sequence of the newest known snapshot
	cat   int64      // generation of the newest written catalogue
	seen  events.Seq // newest sequence; moved is the time at which it first appeared
	moved time.Time
}

// unsaved reports whether the session is idle and has enough commits after its snapshot for a new one.
func (h *cacheEntry) unsaved() bool { return h.state.Idle() && h.state.Seq > h.saved+snapshotTail }

// NewProjector makes a projector. A nil logger is silent.
func NewProjector(b *bus.Bus, log *zap.Logger) *Projector {
	if log == nil {
		log = zap.NewNop()
	}
	return &Projector{b: b, log: log.Named("projector"), states: make(map[events.SessionID]*cacheEntry)}
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
			bus.Sleep(ctx, time.Second)
		}
	}
	return nil
}

// sweep marks every session whose row is behind its stream.
func (p *Projector) sweep(ctx context.Context) error {
	for hot, err := range p.b.Hot(ctx) {
		if err != nil {
			return err
		}
		stored, err := p.b.Directory().Get(ctx, hot.ID)
		if err != nil {
			return err
		}
		var row Directory
		if json.Unmarshal(stored.Value, &row) != nil || row.Seq < hot.Last {
			_ = p.b.MarkDirty(hot.ID)
		}
	}
	return ctx.Err()
}

func (p *Projector) handle(ctx context.Context, j *bus.DirtyMark) {
	cached := p.entry(j.Session)
	if wait := rowEvery - time.Since(cached.rows); wait > 0 {
		_ = j.GiveBack(wait)
		return
	}
	err := p.project(ctx, j.Session, cached)
	switch {
	case err == nil && cached.unsaved():
		_ = j.GiveBack(idleAfter) // a new commit sends another mark
	case err == nil:
		_ = j.Ack()
	case errors.Is(err, events.ErrNoSession):
		delete(p.states, j.Session)
		_ = j.Ack()
	default:
		cached.state = nil
		p.log.Warn("project", zap.String("session", string(j.Session)), zap.Error(err))
		_ = j.GiveBack(rowEvery)
	}
}

func (p *Projector) entry(session events.SessionID) *cacheEntry {
	cached := p.states[session]
	if cached == nil {
		for other := range p.states { // evicts arbitrary entries
			if len(p.states) < projectedSessions {
				break
			}
			delete(p.states, other)
		}
		cached = &cacheEntry{}
		p.states[session] = cached
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
		s, stored, err := restore(ctx, p.b, session)
		if err != nil {
			return err
		}
		cached.state, cached.saved = s, 0
		if stored.Revision != 0 {
			cached.saved = s.Seq
		}
	}
	s := cached.state
	if err := Sync(ctx, p.b.Log(), p.b, s); err != nil {
		return err
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
	return nil
}

func (p *Projector) writeRows(ctx context.Context, s *projector.State, cached *cacheEntry) error {
	err := putRow(ctx, p.b, s, PlaceHot)
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
