package search

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/index"
	"github.com/lash-go/lash/session/api"
)

// positions is the list that positions of searches belong to.
const positions = "search"

// PositionOf decodes the cursor of a search. Errors: those of [api.PositionOf].
func PositionOf(cursor string) (api.Position, error) { return api.PositionOf(positions, cursor) }

// candidate is a session that may match.
type candidate struct {
	at  api.Position
	row *index.Row // nil: it has none
}

func (c *candidate) session() events.SessionID { return events.SessionID(c.at.ID) }

// candidates are the sessions that may match, in order, and how many there are besides.
type candidates struct {
	all                 []candidate
	searched, unindexed int
}

// listCandidates tests the index rows of the sessions to search.
func listCandidates(ctx context.Context, src Source, plan *index.Plan, r *Request) (*candidates, error) {
	var names map[events.SessionID]events.Millis
	var namesErr error
	var wait sync.WaitGroup
	wait.Go(func() { names, namesErr = r.Names(ctx) }) // while the rows are read
	rows, err := src.Candidates(ctx, plan)
	wait.Wait()
	if err = cmp.Or(err, namesErr); err != nil {
		return nil, err
	}
	list := &candidates{searched: len(names)}
	for id, at := range names {
		row, indexed := rows[id]
		if !indexed {
			list.unindexed++
		} else if row == nil {
			continue
		} else if at == 0 {
			at = row.At
		}
		place := api.Position{List: positions, At: int64(at), ID: string(id)}
		if r.After.ID == "" || r.After.Compare(place) < 0 {
			list.all = append(list.all, candidate{place, row})
		}
	}
	slices.SortFunc(list.all, func(a, b candidate) int { return a.at.Compare(b.at) })
	return list, nil
}
