package reader

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/projector/index"
	"github.com/lash-go/lash/session/api"
	textsearch "github.com/lash-go/lash/session/search"
)

// Bounds of a page of a search.
const (
	searchReads = 500 // histories
	searchTime  = 5 * time.Second
)

// Search implements [api.Finder].
func (r *Reader) Search(ctx context.Context, q api.SearchQuery) (page api.SearchPage, err error) {
	if q, err = q.Check(); err != nil {
		return page, err
	}
	after, err := textsearch.PositionOf(q.Cursor)
	if err != nil {
		return page, err
	}
	leave, err := r.searches.enter(ctx)
	if err != nil {
		return page, fmt.Errorf("search: wait for other searches: %w", err)
	}
	defer leave()
	allowed := r.allowed(ctx)
	got, err := textsearch.Run(ctx, searched{r}, textsearch.Request{
		Query: q.Query, Names: r.readableNames, After: after, Sessions: q.Limit, Matches: q.Matches, Allowed: allowed, Read: searchReads, Time: searchTime,
	})
	if err != nil {
		return page, fmt.Errorf("search: %w", err)
	}
	if allowed == nil {
		page.Unread = len(got.Failed) // others do not learn of sessions that they may not read
	}
	for i := range got.Sessions {
		page.Sessions = append(page.Sessions, foundOf(&got.Sessions[i]))
	}
	if got.More {
		page.Next, err = got.Last.Cursor()
	}
	return page, err
}

func foundOf(f *textsearch.Found) api.FoundSession {
	out := api.FoundSession{ID: f.Row.Session, Labels: f.Row.Labels, Model: f.Row.Model, UpdatedAt: f.Row.At}
	for i := range f.Matches {
		out.Matches = append(out.Matches, f.Matches[i].Match)
	}
	return out
}

// readableNames are the sessions of the directory that the caller may see, with the times of their creation.
func (r *Reader) readableNames(ctx context.Context) (map[events.SessionID]events.Millis, error) {
	names, sees := make(map[events.SessionID]events.Millis), seesRow(ctx)
	for stored, err := range r.b.Directory().All(ctx) {
		if err != nil {
			return nil, err
		}
		var row follow.Directory
		if json.Unmarshal(stored, &row) != nil || row.Session == "" {
			continue // a projector repairs a damaged row
		}
		if delete(names, row.Session); row.Erased == nil && sees(&row) { // the last one of two counts
			names[row.Session] = row.CreatedAt
		}
	}
	return names, nil
}

// allowed checks the state of a session, for a caller that reaches some sessions only; nil for any other.
func (r *Reader) allowed(ctx context.Context) func(context.Context, events.SessionID) (bool, error) {
	if caller, ok := api.CallerOf(ctx); !ok || !caller.Bounded() {
		return nil
	}
	return func(ctx context.Context, id events.SessionID) (bool, error) {
		s, err := r.readable(ctx, id)
		return s != nil, err
	}
}

// searched is the reader as a source of a search. It implements [textsearch.Source].
type searched struct{ *Reader }

func (r searched) Log() events.Log { return r.log }

func (r searched) Candidates(ctx context.Context, plan *index.Plan) (map[events.SessionID]*index.Row, error) {
	return follow.Candidates(ctx, r.b, plan)
}

// State leaves the cache alone, as a search would drop all other states.
func (r searched) State(ctx context.Context, id events.SessionID) (*projector.State, error) {
	return follow.Open(ctx, r.b, id)
}
