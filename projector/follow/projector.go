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

// Directory is a session's row in the directory, as JSON. It is a hint: it lags
// behind the history, by about a second while its session moves.
type Directory struct {
	Version   int               `json:"version,omitempty"` // [RowVersion]; smaller of rows of earlier versions
	Session   events.SessionID  `json:"session"`
	Seq       events.Seq        `json:"seq"`
	Status    projector.Status  `json:"status"`
	Place     string            `json:"place,omitempty"` // [PlaceHot] or [PlaceCold]
	Parent    events.SessionID  `json:"parent,omitempty"`
	Owner     string            `json:"owner,omitempty"` // empty: it has none, or is erased, or an earlier version wrote the row
	Labels    map[string]string `json:"labels,omitempty"`
	Readers   []string          `json:"readers,omitempty"` // callers with a grant to read, sorted
	Events    int64             `json:"events"`
	Turns     int64             `json:"turns"`
	Running   events.TurnID     `json:"running,omitempty"`
	Queued    int               `json:"queued"`
	Tasks     int               `json:"tasks"`            // live ones
	Asks      int               `json:"asks,omitempty"`   // questions about calls that wait for an answer
	Waking    bool              `json:"waking,omitempty"` // a monitor's input waits for a turn of its own
	Untold    int64             `json:"untold,omitempty"` // ended turns that plugins are to be told of
	Due       events.Millis     `json:"due_ms,omitempty"` // the earliest time that is set, about: a scheduled turn, a call's result, the end of the time for an answer
	CreatedAt events.Millis     `json:"created_at"`
	UpdatedAt events.Millis     `json:"updated_at"`
	Retain    int64             `json:"retain_ms,omitempty"` // see [events.Config]
	Erased    *Erased           `json:"erased,omitempty"`    // of one that is erased
}

// RowVersion is that of the rows that this program writes. Rows of 0 say nothing of owners, readers and questions.
const RowVersion = 1

// The places of a session.
const (
	PlaceHot  = "hot"  // it has a live stream
	PlaceCold = "cold" // it is archived; the next append makes it hot
)

// RowOf projects a state to its directory row.
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
		if s.Tasks[i].Owing() {
			d.Tasks++
		}
	}
	return d
}

// anyCall counts every result that is set, as a listing may.
func anyCall(*projector.Turn, events.EffectID) bool { return true }

// Rests reports whether nothing of the session's runs, waits, or is still being put together.
func (d *Directory) Rests() bool {
	return d.Running == "" && d.Queued == 0 && d.Tasks == 0 && !d.Waking && d.Untold == 0 && d.Status != projector.StatusOpening
}

const (
	// rowEvery is how often a session's rows are written while it moves.
	rowEvery = time.Second
	// snapshotEvery is how many commits may lie behind a snapshot of a moving session.
	snapshotEvery = 512
	// snapshotTail is how many commits may lie behind a snapshot of an idle session.
	snapshotTail = 32
	// idleAfter is how long a session must not have moved to count as idle.
	idleAfter = 3 * time.Second
	// fetchWait bounds how long a fetch of marks stays open.
	fetchWait = 5 * time.Second
	// sweepEvery is how often every session is looked at for a missed mark.
	sweepEvery = time.Minute
	// projectedSessions bounds the states that a projector keeps between marks.
	projectedSessions = 256
)

// Projector keeps the directory, the catalogues and the snapshots of dirty
// sessions. Any number may run at once, anywhere, and die at any line: what
// they write carries its sequence and never replaces something newer. One
// Projector runs in one goroutine.
type Projector struct {
	b      *bus.Bus
	log    *zap.Logger
	states map[events.SessionID]*projected
}

type projected struct {
	state *projector.State
	rows  time.Time  // when rows were written last
	saved events.Seq // sequence of the newest snapshot known
	cat   int64      // generation of the newest catalogue written
	seen  events.Seq // newest sequence seen, and when it was first
	moved time.Time
}

// unsaved reports whether the session is idle with a tail that is worth a snapshot.
func (h *projected) unsaved() bool { return h.state.Idle() && h.state.Seq > h.saved+snapshotTail }

// NewProjector makes a projector. A nil logger is silent.
func NewProjector(b *bus.Bus, log *zap.Logger) *Projector {
	if log == nil {
		log = zap.NewNop()
	}
	return &Projector{b: b, log: log.Named("projector"), states: make(map[events.SessionID]*projected)}
}

// Run follows marks until ctx ends, and sweeps now and then for marks that were missed.
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
	held := p.hold(j.Session)
	if wait := rowEvery - time.Since(held.rows); wait > 0 {
		_ = j.Nak(wait)
		return
	}
	err := p.project(ctx, j.Session, held)
	switch {
	case err == nil && held.unsaved():
		_ = j.Nak(idleAfter) // unless it moves again, which is another mark
	case err == nil:
		_ = j.Ack()
	case errors.Is(err, events.ErrNoSession):
		delete(p.states, j.Session)
		_ = j.Ack()
	default:
		held.state = nil
		p.log.Warn("project", zap.String("session", string(j.Session)), zap.Error(err))
		_ = j.Nak(rowEvery)
	}
}

func (p *Projector) hold(session events.SessionID) *projected {
	held := p.states[session]
	if held == nil {
		for other := range p.states { // any one will do
			if len(p.states) < projectedSessions {
				break
			}
			delete(p.states, other)
		}
		held = &projected{}
		p.states[session] = held
	}
	return held
}

// Project brings one session's rows and, where it is worth one, its snapshot up to its end, at once.
func (p *Projector) Project(ctx context.Context, session events.SessionID) error {
	held := &projected{}
	if err := p.project(ctx, session, held); err != nil || !held.unsaved() {
		return err
	}
	_, err := Save(ctx, p.b, held.state)
	return err
}

func (p *Projector) project(ctx context.Context, session events.SessionID, held *projected) error {
	if held.state == nil {
		s, stored, err := restore(ctx, p.b, session)
		if err != nil {
			return err
		}
		held.state, held.saved = s, 0
		if stored.Revision != 0 {
			held.saved = s.Seq
		}
	}
	s := held.state
	if err := Sync(ctx, p.b.Log(), p.b, s); err != nil {
		return err
	}
	if s.Seq != held.seen {
		held.seen, held.moved = s.Seq, time.Now()
	}
	if s.Seq >= held.saved+snapshotEvery || held.unsaved() && time.Since(held.moved) >= idleAfter {
		if _, err := Save(ctx, p.b, s); err != nil {
			return err
		}
		held.saved = s.Seq
	}
	if err := p.writeRows(ctx, s, held); err != nil {
		return err
	}
	held.rows = time.Now()
	return nil
}

func (p *Projector) writeRows(ctx context.Context, s *projector.State, held *projected) error {
	err := putRow(ctx, p.b, s, PlaceHot)
	if err != nil || s.Catalog.Generation == held.cat {
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
		held.cat = s.Catalog.Generation
	}
	return err
}
