package reader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
)

// Names of the lists in cursors.
const (
	listSessions  = "sessions"
	listTurns     = "turns"
	listApprovals = "approvals"
)

// Sessions implements [api.Finder].
func (r *Reader) Sessions(ctx context.Context, q api.SessionQuery) (page api.SessionPage, err error) {
	limit, err := q.Page.Check()
	if err == nil {
		err = q.Check()
	}
	if err != nil {
		return page, err
	}
	from, err := api.PositionOf(listSessions, q.Cursor)
	if err != nil {
		return page, err
	}
	var last api.Position
	wanted := func(row *follow.Directory) bool {
		return selects(&q, row) && (from.ID == "" || from.Compare(positionOf(row)) < 0)
	}
	for row, err := range r.readableRows(ctx, limit+1, wanted) {
		if err != nil {
			return api.SessionPage{}, fmt.Errorf("list sessions: %w", err)
		}
		if len(page.Sessions) == limit {
			page.Next, err = last.Cursor()
			return page, err
		}
		page.Sessions, last = append(page.Sessions, summaryOf(&row)), positionOf(&row)
	}
	return page, nil
}

// PendingApprovals implements [api.Finder]. It lists in rounds: each one has the next [api.ApprovalRound] questions of every session,
// so that no session hides the others'. A question stays in its round, whatever is answered before it.
func (r *Reader) PendingApprovals(ctx context.Context, p api.Page) (page api.ApprovalPage, err error) {
	limit, err := p.Check()
	if err != nil {
		return page, err
	}
	from, err := api.PositionOf(listApprovals, p.Cursor)
	if err != nil {
		return page, err
	}
	if from.Round < 0 || from.Round > maxRound {
		return page, &events.FieldError{Field: "cursor", Reason: "is none that a page of this list gave as its next", Err: events.ErrInvalid}
	}
	asks, asked := make(map[events.SessionID]int), make(map[events.SessionID]int) // by session: open questions, and all of its turn
	sees, bytes := seesRow(ctx), 0
	var last api.Position
	for round, more := int(from.Round), true; more; round++ {
		more = false
		wanted := func(row *follow.Directory) bool {
			if row.Asks == 0 || !sees(row) {
				return false
			}
			asks[row.Session] = row.Asks
			if n, known := asked[row.Session]; known && n <= round*api.ApprovalRound {
				return false
			}
			return round > int(from.Round) || from.ID == "" || from.Compare(positionOf(row)) <= 0 // the session of the cursor has the rest of its round
		}
		for row, err := range r.rows(ctx, limit+1, wanted) {
			if err != nil {
				return api.ApprovalPage{}, fmt.Errorf("list approvals: %w", err)
			}
			s, err := r.readable(ctx, row.Session)
			if err != nil {
				return api.ApprovalPage{}, fmt.Errorf("list approvals: %w", err)
			}
			seen := events.EffectID("")
			if round == int(from.Round) && from.ID == string(row.Session) {
				seen = events.EffectID(from.Sub)
			}
			list, all := roundFrom(s, round, seen)
			asked[row.Session], more = all, more || all > (round+1)*api.ApprovalRound
			for _, a := range list {
				if len(page.Approvals) == limit || bytes >= api.MaxApprovalPageBytes {
					page.Next, err = last.Cursor()
					page.Count = total(asks)
					return page, err
				}
				bytes += len(a.Args)
				page.Approvals, last = append(page.Approvals, api.PendingApproval{Session: row.Session, Approval: a}), positionOf(&row)
				last.List, last.Sub, last.Round = listApprovals, string(a.Effect), int64(round)
			}
		}
		if round == int(from.Round) && from.ID != "" {
			more = true // sessions before that of the cursor were not read in this round
		}
	}
	page.Count = total(asks)
	return page, nil
}

func total(asks map[events.SessionID]int) (n int) {
	for _, of := range asks {
		n += of
	}
	return n
}

// maxRound bounds the round of a cursor.
const maxRound = 1 << 20

// roundFrom are the open questions of a session in a round, after one of them, and the number of all that its turn asked. Without
// such a question its turn has ended, and no earlier page has any of these.
func roundFrom(s *projector.State, round int, after events.EffectID) (list []projector.Approval, all int) {
	if s == nil || s.Turn() == nil {
		return nil, 0
	}
	asks := s.Turn().Asks
	at := func(effect events.EffectID) int {
		return slices.IndexFunc(asks, func(a projector.Approval) bool { return a.Effect == effect })
	}
	begin := max(round*api.ApprovalRound, at(after)+1)
	list = slices.DeleteFunc(s.UnansweredApprovals(), func(a projector.Approval) bool {
		return at(a.Effect) < begin || at(a.Effect) >= (round+1)*api.ApprovalRound
	})
	return list, len(asks)
}

// selects reports whether a row matches a query.
func selects(q *api.SessionQuery, row *follow.Directory) bool {
	if q.Status != row.Status && (q.Status != "" || row.Erased != nil) {
		return false
	}
	for name, value := range q.Labels {
		if has, ok := row.Labels[name]; !ok || has != value {
			return false
		}
	}
	within := func(at, from, to events.Millis) bool { return at >= from && (to == 0 || at < to) }
	return (q.Parent == "" || q.Parent == row.Parent) && (q.Owner == "" || q.Owner == row.Owner) &&
		within(row.CreatedAt, q.CreatedFrom, q.CreatedTo) && within(row.UpdatedAt, q.UpdatedFrom, q.UpdatedTo)
}

func positionOf(row *follow.Directory) api.Position {
	return api.Position{List: listSessions, At: int64(row.CreatedAt), ID: string(row.Session)}
}

func summaryOf(row *follow.Directory) api.SessionSummary {
	return api.SessionSummary{
		ID: row.Session, Seq: row.Seq, Status: row.Status, Parent: row.Parent, Labels: row.Labels, Owner: row.Owner, Turns: row.Turns,
		Running: row.Running, Queued: row.Queued, Tasks: row.Tasks, Approvals: row.Asks, CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	}
}

// readableRows are the rows that the caller of the request may see, in order. Where the caller has its own sessions
// only, the state of each one decides.
func (r *Reader) readableRows(ctx context.Context, most int, wanted func(*follow.Directory) bool) iter.Seq2[follow.Directory, error] {
	caller, ok := api.CallerOf(ctx)
	if !ok || !caller.Own {
		return r.rows(ctx, most, wanted)
	}
	return func(yield func(follow.Directory, error) bool) {
		for row, err := range r.rows(ctx, most, wanted) {
			if err == nil {
				var s *projector.State
				if s, err = r.readable(ctx, row.Session); err == nil && s == nil {
					continue
				}
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// readable is a session's state, where there is one that the caller of the request may read; else nil. The cache does
// not keep it, as a list would drop all other states.
func (r *Reader) readable(ctx context.Context, id events.SessionID) (*projector.State, error) {
	s, err := follow.Open(ctx, r.b, id)
	err = api.Authorize(api.WithSession(ctx, id), id, s, err)
	switch {
	case errors.Is(err, events.ErrNoSession), errors.Is(err, events.ErrMalformed), errors.Is(err, api.ErrForbidden):
		return nil, nil //nolint:nilnil // a history that cannot be folded has no known readers
	case err != nil:
		return nil, err
	}
	return s, nil
}

// rows are the rows of the directory that wanted selects, the newest session first. A caller that has its own sessions
// only gets the rows with its name. Each batch of rows is a new read of the directory, so that memory has one batch at
// a time.
func (r *Reader) rows(ctx context.Context, most int, wanted func(*follow.Directory) bool) iter.Seq2[follow.Directory, error] {
	sees := seesRow(ctx)
	return func(yield func(follow.Directory, error) bool) {
		for from := (*api.Position)(nil); ; {
			list, err := r.firstRows(ctx, most, func(row *follow.Directory) bool {
				return wanted(row) && (from == nil || from.Compare(positionOf(row)) < 0) && sees(row)
			})
			if err != nil {
				yield(follow.Directory{}, err)
				return
			}
			for i := range list {
				if !yield(list[i], nil) {
					return
				}
			}
			if len(list) < most {
				return
			}
			from = new(positionOf(&list[most-1]))
		}
	}
}

// seesRow reports which rows may be of sessions that the caller may read: those with its name, where it has its own
// sessions only.
func seesRow(ctx context.Context) func(*follow.Directory) bool {
	caller, ok := api.CallerOf(ctx)
	return func(row *follow.Directory) bool {
		return !ok || !caller.Own || row.Owner == caller.Name || slices.Contains(row.Readers, caller.Name)
	}
}

// firstRows reads the directory once, and returns the first wanted rows.
func (r *Reader) firstRows(ctx context.Context, most int, wanted func(*follow.Directory) bool) ([]follow.Directory, error) {
	var list []follow.Directory
	first := func() {
		slices.SortFunc(list, func(a, b follow.Directory) int { return positionOf(&a).Compare(positionOf(&b)) })
		list = slices.CompactFunc(list, func(a, b follow.Directory) bool { return a.Session == b.Session }) // a row that was written during the read comes twice
		list = list[:min(len(list), most)]
	}
	for stored, err := range r.b.Directory().All(ctx) {
		if err != nil {
			return nil, err
		}
		var row follow.Directory
		if json.Unmarshal(stored, &row) != nil || row.Session == "" || !wanted(&row) {
			continue // a projector repairs a damaged row
		}
		if list = append(list, row); len(list) >= 2*most {
			first()
		}
	}
	first()
	return list, nil
}
