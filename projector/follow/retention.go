package follow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// retainEvery is the interval at which the whole directory is read for sessions whose retention has ended.
const retainEvery = 10 * time.Minute

// retainNow runs Retain with the servers' clock. This node's clock may be wrong, and an erasure is final.
func (a *Archiver) retainNow(ctx context.Context) error { return a.Retain(ctx, a.b.Now()) }

// Retain erases sessions whose retention has ended, finishes interrupted erasures and redactions,
// makes the rows of cold sessions without one, indexes sessions without an index row, and packs index rows. It reads every row of the directory, and only the sessions that need one
// of these.
func (a *Archiver) Retain(ctx context.Context, now time.Time) error {
	var errs []error
	indexed, err := a.indexedSessions(ctx)
	if err != nil {
		return err
	}
	var missing []events.SessionID
	rows := make(map[events.SessionID]bool)
	for stored, err := range a.b.Directory().All(ctx) {
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		var row Directory
		if json.Unmarshal(stored, &row) != nil {
			continue // a projector replaces the damaged row
		}
		rows[row.Session] = true
		if err := a.retain(ctx, row.Session, &row, now); err != nil {
			errs = append(errs, err)
		}
		if !row.isTombstone() && !indexed[row.Session] {
			missing = append(missing, row.Session)
		}
	}
	return errors.Join(append(errs, a.addRows(ctx, rows), a.indexMissing(ctx, missing), PackIndex(ctx, a.b))...)
}

// addRows makes the rows of the cold sessions that have none, as their importers died before.
func (a *Archiver) addRows(ctx context.Context, rows map[events.SessionID]bool) error {
	var errs []error
	for id, err := range a.b.Archived(ctx) {
		if err == nil && rows[id] {
			continue
		}
		if err == nil {
			err = ignoreGone(a.addRow(ctx, id))
		}
		if errors.Is(err, events.ErrLocked) {
			continue // a node with the key makes it
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (a *Archiver) addRow(ctx context.Context, id events.SessionID) error {
	s, err := Open(ctx, a.b, id)
	if gone := new(events.ErasedError); errors.As(err, &gone) {
		return a.finishErasure(ctx, id, gone)
	}
	cold := false
	if err == nil {
		cold, err = a.b.Cold(ctx, id) // a projector makes the row of a hot one
	}
	if err == nil && cold {
		err = PutCold(ctx, a.b, s)
	}
	if err != nil || !cold || a.inactive(s) {
		return err
	}
	return a.wake(ctx, s)
}

// finishErasure continues an erasure that died before it marked the row.
func (a *Archiver) finishErasure(ctx context.Context, id events.SessionID, gone *events.ErasedError) error {
	_, err := Erase(ctx, a.b, id, nil, bus.Tombstone{At: gone.At, By: gone.By, Reason: gone.Reason}, a.cfg.Signer)
	return err
}

// wake wakes a cold session with work left: it is retained until the work is done.
func (a *Archiver) wake(ctx context.Context, s *projector.State) error {
	if a.cfg.Wake == nil {
		return nil
	}
	return a.cfg.Wake(ctx, s)
}

// indexedSessions are the sessions with an index row.
func (a *Archiver) indexedSessions(ctx context.Context) (map[events.SessionID]bool, error) {
	rows, _ := a.b.Index()
	list := make(map[events.SessionID]bool)
	for id, err := range rows.Keys(ctx) {
		if err != nil {
			return nil, err
		}
		list[id] = true
	}
	return list, nil
}

func (a *Archiver) retain(ctx context.Context, id events.SessionID, row *Directory, now time.Time) error {
	if row.Status == projector.StatusErasing && row.Erased != nil {
		_, err := Erase(ctx, a.b, id, nil, bus.Tombstone{At: row.Erased.At, By: row.Erased.By, Reason: row.Erased.Reason}, a.cfg.Signer)
		return ignoreGone(err)
	}
	if row.Redacting {
		if err := a.finishRedaction(ctx, id, now); err != nil {
			return err
		}
	}
	if row.Status == projector.StatusErased || !a.expired(row.UpdatedAt, row.Retain, now) {
		return nil
	}
	s, err := Open(ctx, a.b, id) // the row may be behind
	if gone := new(events.ErasedError); errors.As(err, &gone) {
		return a.finishErasure(ctx, id, gone)
	}
	if err != nil || !a.expired(s.UpdatedAt, s.Config.RetainMillis, now) {
		return ignoreGone(err)
	}
	if !a.inactive(s) {
		if row.Place == PlaceCold && row.Seq == s.Seq {
			return a.wake(ctx, s)
		}
		return nil
	}
	stored, err := a.b.StoredAt(ctx, id) // the time in a commit comes from its writer's clock
	if err != nil || !a.expired(events.MillisOf(stored), s.Config.RetainMillis, now) {
		return ignoreGone(err)
	}
	reason, err := a.reason(ctx, id, s.Config.RetainMillis)
	if err != nil {
		return ignoreGone(err)
	}
	_, err = Erase(ctx, a.b, id, &s.Seq, bus.Tombstone{At: events.Millis(now.UnixMilli()), By: events.ByRetention, Reason: reason, Retention: true}, a.cfg.Signer)
	return ignoreGone(err)
}

// reason describes the retention and the author of its setting. The tombstone is all that stays of the session.
func (a *Archiver) reason(ctx context.Context, id events.SessionID, own int64) (string, error) {
	reason := fmt.Sprintf("kept for %s after its last event", a.retention(own))
	if own == 0 {
		return reason, nil
	}
	var last int64
	var at events.Seq
	var actor events.Actor
	for entry, err := range a.b.Log().Read(ctx, id, 1) {
		if err != nil && ctx.Err() == nil {
			return reason + ", as its configuration said; who asked for that cannot be read", nil
		}
		if err != nil {
			return "", err
		}
		for i := range entry.Commit.Events {
			now := last
			switch p := entry.Commit.Events[i].Payload.(type) {
			case *events.SessionOpened:
				now = p.Config.RetainMillis
			case *events.SessionConfigured:
				now = p.Config.RetainMillis
			}
			if now != last {
				last, at, actor = now, entry.Seq, entry.Commit.Actor
			}
		}
	}
	by := strings.ToValidUTF8(actor.ID, "\uFFFD") // a tombstone's texts are UTF-8
	return fmt.Sprintf("%s, as %s:%s asked at sequence %d", reason, actor.Kind, by, at), nil
}

// ignoreGone returns nil for a session that is gone, or that moved and is no longer due.
func ignoreGone(err error) error {
	if errors.Is(err, events.ErrNoSession) || errors.As(err, new(*events.ConflictError)) {
		return nil
	}
	return err
}

// retention is the time for which a session is kept; 0 means forever.
func (a *Archiver) retention(own int64) time.Duration {
	kept := time.Duration(min(max(own, 0), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
	if own == 0 {
		kept = max(a.cfg.Retain, 0)
	}
	if kept > 0 {
		kept = max(kept, a.cfg.Least)
	}
	return kept
}

func (a *Archiver) expired(updated events.Millis, own int64, now time.Time) bool {
	kept := a.retention(own)
	return kept > 0 && now.Sub(updated.Time()) >= kept
}
