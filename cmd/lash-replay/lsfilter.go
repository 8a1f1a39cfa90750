package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/lash-go/lash/cmd/internal/program"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/projector/index"
	textsearch "github.com/lash-go/lash/session/search"
)

// listing lists the sessions that flags select.
type listing struct {
	*lsCmd
	since  events.Millis
	prices pricing
	rows   map[events.SessionID]*index.Row
}

func (c *lsCmd) filter(e *env) (*listing, error) {
	l := &listing{lsCmd: c}
	statuses := []string{
		string(projector.StatusOpen), "running", "asking", string(projector.StatusClosed), string(projector.StatusErased), string(projector.StatusErasing),
		string(projector.StatusOpening), "empty", "unreadable",
	}
	if c.Status != "" && !slices.Contains(statuses, c.Status) {
		return nil, fmt.Errorf("--status %s: want one of %s", quoted(c.Status), strings.Join(statuses, ", "))
	}
	if c.Limit < 0 {
		return nil, fmt.Errorf("--limit %d: want 1 or more sessions", c.Limit)
	}
	if c.Since != "" {
		at, ok := c.Since.Time(e.now())
		if !ok {
			return nil, fmt.Errorf("--since %s: want a time such as 2026-11-25T18:30:00Z, or a duration such as 24h", quoted(string(c.Since)))
		}
		l.since = at
	}
	var err error
	l.prices, err = c.load()
	return l, err
}

// list reads every session. One that cannot be read has the status "unreadable".
func (l *listing) list(ctx context.Context, e *env, src source) ([]listed, error) {
	ids, err := src.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	l.rows = make(map[events.SessionID]*index.Row)
	var mu sync.Mutex
	err = follow.EachIndexRow(src.Index(ctx), func() func(*index.Row) {
		return func(row *index.Row) {
			mu.Lock()
			defer mu.Unlock()
			l.rows[row.Session] = row
		}
	})
	if err != nil {
		return nil, err
	}
	if ids, err = l.addErased(ctx, e, src, ids); err != nil {
		return nil, err
	}
	list := make([]listed, 0, len(ids))
	for _, id := range ids {
		one, err := listSession(ctx, src, id)
		if err == nil {
			err = l.complete(ctx, src, &one)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			one = listed{Session: id, Status: "unreadable", Error: err.Error()}
			e.Printf("session %s cannot be read: %v", id, err)
		}
		if l.selects(&one) {
			list = append(list, one)
		}
	}
	if l.Limit > 0 {
		slices.SortStableFunc(list, func(a, b listed) int { return cmp.Compare(b.updated, a.updated) })
		list = list[:min(len(list), l.Limit)]
	}
	return list, nil
}

// addErased adds the erased sessions where the status asks for them. Otherwise it says how many there are.
func (l *listing) addErased(ctx context.Context, e *env, src source, ids []events.SessionID) ([]events.SessionID, error) {
	all, err := withErased(ctx, src, ids)
	if err != nil || l.Status == statusErased {
		return all, err
	}
	if n := len(all) - len(ids); n > 0 && l.Status == "" && !l.JSON {
		e.Printf("%s not listed, which --status erased lists", program.Number(int64(n), "erased session"))
	}
	return ids, nil
}

// complete adds what the index has of a session. A history of a source without index, as an archive, is read.
func (l *listing) complete(ctx context.Context, src source, one *listed) error {
	row := l.rows[one.Session]
	if _, indexed := src.(*busSource); !indexed && row == nil {
		var err error
		if row, err = textsearch.RowOf(ctx, src, one.Session); err != nil {
			return err
		}
	}
	if row == nil {
		return nil
	}
	sum, ledger := events.Usage{}, make([]projector.LedgerEntry, 0, len(row.Usage))
	for _, u := range row.Usage {
		sum = sum.Add(u.Usage)
		ledger = append(ledger, projector.LedgerEntry{Model: u.Model, Usage: u.Usage})
	}
	one.Model, one.LastText, one.total = row.Model, row.Last, sum.Total()
	one.Tokens, one.Cost = &eventjson.Value{V: sum}, l.prices.total(ledger)
	return nil
}

func (l *listing) selects(one *listed) bool {
	status := l.Status == "" || l.Status == one.Status || l.Status == "running" && one.Running != "" || l.Status == "asking" && one.Asks > 0
	return status && (l.Model == "" || l.Model == one.Model) && one.updated >= l.since && index.HasLabels(one.Labels, l.Label)
}
