package reader

import (
	"context"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// Turns implements [api.Finder].
func (r *Reader) Turns(ctx context.Context, id events.SessionID, p api.Page) (page api.TurnPage, err error) {
	limit, err := p.Check()
	if err != nil {
		return page, err
	}
	from, err := api.PositionOf(listTurns, p.Cursor)
	if err != nil {
		return page, err
	}
	s, err := r.State(ctx, id)
	if err != nil {
		return page, err
	}
	asked, err := r.asked(ctx, s)
	if err != nil {
		return page, err
	}
	list, err := turnsOf(s, asked)
	if err != nil {
		return page, fmt.Errorf("turns of session %s: %w", id, err)
	}
	list = slices.DeleteFunc(list, func(t api.TurnSummary) bool { return from.ID != "" && from.Compare(turnPosition(&t)) >= 0 })
	slices.SortFunc(list, func(a, b api.TurnSummary) int { return turnPosition(&a).Compare(turnPosition(&b)) })
	if page.Turns = list; len(list) > limit {
		page.Turns = list[:limit]
		page.Next, err = turnPosition(&list[limit-1]).Cursor()
	}
	return page, err
}

func turnPosition(t *api.TurnSummary) api.Position {
	return api.Position{List: listTurns, At: int64(t.Accepted), ID: string(t.ID)}
}

// turnsOf are all turns of a session, in no order.
func turnsOf(s *projector.State, asked []api.PendingApproval) ([]api.TurnSummary, error) {
	records, err := s.Records()
	if err != nil {
		return nil, err
	}
	list := make([]api.TurnSummary, 0, len(records)+1+len(s.Queue)+len(s.Scheduled))
	for i := range records {
		r := &records[i]
		list = append(list, api.TurnSummary{
			ID: r.ID, Status: api.TurnEnded, End: r.End, Issue: r.Issue, By: r.By, Session: r.Session, ModelCalls: r.ModelCalls, ToolCalls: r.ToolCalls,
			Usage: r.Usage, RequestedAt: r.RequestedAt, StartedAt: r.StartedAt, CompletedAt: r.CompletedAt, Accepted: r.Asked,
		})
	}
	if t := s.Turn(); t != nil {
		list = append(list, api.TurnSummary{
			ID: t.ID, Status: api.StatusOf(projector.TurnPlace{Running: t}, len(asked) > 0), Asks: api.Asking(asked), ToolCalls: t.ToolCalls, Usage: t.Usage, RequestedAt: t.RequestedAt, StartedAt: t.StartedAt, Accepted: t.Seq,
		})
	}
	for i := range s.Queue {
		q := &s.Queue[i]
		list = append(list, api.TurnSummary{ID: q.ID, Status: api.TurnWaiting, RequestedAt: q.RequestedAt, Accepted: q.Seq})
	}
	for i := range s.Scheduled {
		d := &s.Scheduled[i]
		list = append(list, api.TurnSummary{ID: d.ID, Status: api.TurnScheduled, RequestedAt: d.Asked, Due: d.At, Accepted: d.Seq})
	}
	return list, nil
}
