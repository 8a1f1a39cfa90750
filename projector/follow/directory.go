package follow

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Directory is a session's row in the directory, as JSON. It is a hint: in a session that moves, it is about one
// second behind the history.
type Directory struct {
	Session events.SessionID `json:"session"`
	bus.DirectorySeq
	Status     projector.Status  `json:"status"`
	Place      string            `json:"place,omitempty"` // [PlaceHot] or [PlaceCold]
	Parent     events.SessionID  `json:"parent,omitempty"`
	Owner      string            `json:"owner,omitempty"` // empty without an owner, and in rows of erased sessions
	Labels     map[string]string `json:"labels,omitempty"`
	Readers    []string          `json:"readers,omitempty"` // callers with a grant to read, sorted
	Events     int64             `json:"events"`
	Stored     int64             `json:"stored,omitempty"` // see [projector.Head]
	Turns      int64             `json:"turns"`
	Running    events.TurnID     `json:"running,omitempty"`
	Queued     int               `json:"queued"`
	Tasks      int               `json:"tasks"`            // unfinished tasks
	Asks       int               `json:"asks,omitempty"`   // unanswered approval requests
	Waking     bool              `json:"waking,omitempty"` // a monitor's input waits for a turn
	Unnotified int64             `json:"untold,omitempty"` // notices that plugins or the parent must get
	Due        events.Millis     `json:"due_ms,omitempty"` // approximately the earliest time at which something is due: a scheduled turn, a call's result, the end of the time for an answer
	CreatedAt  events.Millis     `json:"created_at"`
	UpdatedAt  events.Millis     `json:"updated_at"`
	Retain     int64             `json:"retain_ms,omitempty"` // see [events.Config]
	Erased     *Erased           `json:"erased,omitempty"`    // of an erased session
	Redacting  bool              `json:"redacting,omitempty"` // payloads of the session are being replaced: an archiver purges what may have them
}

// Places of a session.
const (
	PlaceHot  = "hot"  // it has a live stream
	PlaceCold = "cold" // it is archived; the next append makes it hot
)

// RowOf makes the directory row of a state.
func RowOf(s *projector.State) Directory {
	d := Directory{
		Session: s.Session, DirectorySeq: bus.DirectorySeq{Seq: s.Seq}, Status: s.Status, Place: PlaceHot, Parent: s.Parent, Labels: s.Labels,
		Owner: s.Owner, Asks: len(s.UnansweredApprovals()),
		Events: s.Events, Stored: s.Stored, Turns: s.Turns, Queued: len(s.Queue), CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, Retain: s.Config.RetainMillis,
		Unnotified: int64(len(s.Unnotified)),
		Due:        s.EarliestDue(anyCall), Waking: slices.ContainsFunc(s.Monitors, func(m projector.Monitor) bool { return m.Wake != "" }),
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
	return d.Running == "" && d.Queued == 0 && d.Tasks == 0 && !d.Waking && d.Unnotified == 0 && d.Status != projector.StatusOpening
}

// putRow writes the directory row of a session in a place. For equal sequences, a cold row stays. A newer row stays, and newer
// reports it.
func putRow(ctx context.Context, b *bus.Bus, s *projector.State, place string) (newer bool, err error) {
	row := RowOf(s)
	row.Place = place
	value, err := json.Marshal(row)
	if err != nil {
		return false, fmt.Errorf("row of %s: %w", s.Session, err)
	}
	err = replace(ctx, b.Directory(), s.Session, value, func(old []byte) bool {
		var have Directory
		if json.Unmarshal(old, &have) != nil {
			return true
		}
		newer = have.Seq > s.Seq && !have.isTombstone()
		return !have.isTombstone() && (have.Seq < s.Seq || have.Seq == s.Seq && have.Place != PlaceCold && !bytes.Equal(old, value))
	})
	return newer, err
}

// replace writes a row if newer reports that the existing one is older. The row's revision resolves concurrent
// writes.
func replace(ctx context.Context, rows bus.Rows, session events.SessionID, value []byte, newer func(old []byte) bool) error {
	_, err := rows.Update(ctx, session, func(have bus.Row) ([]byte, error) {
		if have.Revision != 0 && !newer(have.Value) {
			return nil, nil
		}
		return value, nil
	})
	return err
}

// PutCold writes the directory row of a session that [bus.Bus.Restore] made: it is cold. A row of a later sequence stays.
func PutCold(ctx context.Context, b *bus.Bus, s *projector.State) error {
	_, err := putRow(ctx, b, s, PlaceCold)
	return err
}
