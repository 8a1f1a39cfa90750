package wake

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/follow"
)

// list adds all sessions to the candidates whose hints may be lost.
func (s *Sweeper) list(ctx context.Context) error {
	s.mu.Lock()
	soon, full, cold := s.soon, s.full, s.cold
	s.soon, s.full, s.cold = false, false, false
	s.mu.Unlock()
	var err error
	if full {
		err = s.listHot(ctx, soon)
	}
	if cold {
		err = errors.Join(err, s.listCold(ctx))
	}
	if err != nil { // the next sweep lists again
		s.mu.Lock()
		defer s.mu.Unlock()
		s.soon, s.full, s.cold = s.soon || soon, s.full || full, s.cold || cold
	}
	return err
}

// listHot first repairs the sessions that need a worker by their directory row, and then lists the streams. In a cluster
// the list takes 4 s for each 256 streams if one of them does not respond, for example because it is deleted
// meanwhile. A node that is killed soon after its start would not reach the end of the list.
func (s *Sweeper) listHot(ctx context.Context, soon bool) error {
	rows := make(map[events.SessionID]follow.Directory)
	for value, err := range s.bus.Directory().All(ctx) {
		var row follow.Directory
		if err != nil {
			return err
		}
		if json.Unmarshal(value, &row) == nil {
			rows[row.Session] = row
		}
	}
	for id, row := range rows {
		if row.Place == follow.PlaceHot && !row.Inactive() {
			s.missing(id, candidate{lastCommitAt: ago(s.bus.Since(row.UpdatedAt.Time())), soon: soon, folds: true})
		}
	}
	_ = s.repair(ctx) // a session that fails here is a candidate of the list
	return s.listStreams(ctx, rows, soon)
}

func (s *Sweeper) listStreams(ctx context.Context, rows map[events.SessionID]follow.Directory, soon bool) error {
	for hot, err := range s.bus.Hot(ctx) {
		if err != nil {
			return err
		}
		row, known := rows[hot.ID]
		if hot.Last == 0 || hot.Sealed || known && row.Seq == hot.Last && row.Inactive() && row.Due == 0 {
			continue
		}
		s.missing(hot.ID, candidate{lastCommitAt: ago(hot.Quiet), soon: soon, folds: true})
	}
	return nil
}

// ago is a time by this machine's monotonic clock.
func ago(d time.Duration) time.Time { return time.Now().Add(-d) }

// missing adds a candidate, or merges what was found into it: commits after the last one that was seen may have been
// missed. Only a candidate of which no commit was seen gets the time of found: the list of streams has a better time than
// a directory row, which may be of an earlier commit.
func (s *Sweeper) missing(id events.SessionID, found candidate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.candidates[id]
	if c == nil || !c.timed.IsZero() {
		s.candidates[id] = &found
		return
	}
	c.soon, c.folds, c.missed = c.soon || found.soon, true, true
	if c.seq == 0 {
		c.lastCommitAt = found.lastCommitAt
	}
}

// listCold stores the timers of cold sessions again, from their directory rows.
func (s *Sweeper) listCold(ctx context.Context) error {
	for value, err := range s.bus.Directory().All(ctx) {
		if err != nil {
			return err
		}
		var row follow.Directory
		if json.Unmarshal(value, &row) == nil && row.Place == follow.PlaceCold && row.Due != 0 {
			if err := s.bus.StoreTimer(ctx, row.Session, row.Due); err != nil {
				return err
			}
		}
	}
	return nil
}
