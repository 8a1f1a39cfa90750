package wake

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/follow"
)

// list makes candidates of all sessions that may have been missed.
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

// listHot repairs the sessions whose directory row says that they owe work
// before it lists the streams: servers of a cluster take 4 s for each 256 of
// them where one does not answer, such as one that is deleted meanwhile. Nodes
// that are killed one after the other may not live for as long.
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
			s.missing(id, candidate{moved: row.UpdatedAt.Time(), soon: soon, folds: true})
		}
	}
	_ = s.repair(ctx) // what fails is looked at again after the list
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
		s.missing(hot.ID, candidate{moved: hot.ChangedAt, soon: soon, folds: true})
	}
	return nil
}

// missing adds a candidate. Of one that there is already, and that was not seen
// to move, it has the better time: a row's is of the clock of a node.
func (s *Sweeper) missing(id events.SessionID, found candidate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch c := s.candidates[id]; {
	case c == nil || !c.timed.IsZero():
		s.candidates[id] = &found
	case c.seq == 0:
		c.moved = found.moved
	}
}

// listCold sets the timers of cold sessions again, as their rows say.
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
