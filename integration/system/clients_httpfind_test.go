package system

import (
	"context"
	"net/url"
	"strconv"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/httpbody"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
)

func (s *httpService) Sessions(ctx context.Context, q api.SessionQuery) (api.SessionPage, error) {
	return fetched(ctx, s.web, &operation.Sessions.Row, "", sent{query: "?" + sessionValues(q).Encode()}, func(got httpbody.Sessions) api.SessionPage {
		page := api.SessionPage{Next: got.Next}
		for _, row := range got.Sessions {
			page.Sessions = append(page.Sessions, api.SessionSummary(row))
		}
		return page
	})
}

func (s *httpService) Turns(ctx context.Context, id events.SessionID, p api.Page) (api.TurnPage, error) {
	return fetched(ctx, s.web, &operation.Turns.Row, id, sent{query: "?" + pageValues(p).Encode()}, func(got httpbody.Turns) api.TurnPage {
		page := api.TurnPage{Next: got.Next}
		for _, t := range got.Turns {
			row := api.TurnSummary{
				ID: t.ID, Status: t.Status, End: t.End, By: t.By, Session: t.Session, ModelCalls: t.ModelCalls, ToolCalls: t.ToolCalls, Usage: events.Usage{Input: t.Tokens},
				Accepted: t.Accepted, RequestedAt: t.RequestedAt, StartedAt: t.StartedAt, CompletedAt: t.CompletedAt, Due: t.Due,
			}
			if t.Issue != nil {
				row.Issue = events.Issue{Kind: t.Issue.Kind, Code: t.Issue.Code, Message: t.Issue.Message}
			}
			page.Turns = append(page.Turns, row)
		}
		return page
	})
}

func (s *httpService) PendingApprovals(ctx context.Context, p api.Page) (api.ApprovalPage, error) {
	return fetched(ctx, s.web, &operation.PendingApprovals.Row, "", sent{query: "?" + pageValues(p).Encode()}, func(got httpbody.PendingApprovals) api.ApprovalPage {
		page := api.ApprovalPage{Next: got.Next, Count: got.Count}
		for _, a := range got.Approvals {
			request := projector.Approval{ToolApprovalAsked: events.ToolApprovalAsked{Effect: a.Call, Tool: a.Tool, Args: a.Args, Plugin: a.Plugin, Question: a.Question}}
			page.Approvals = append(page.Approvals, api.PendingApproval{Session: a.Session, Approval: request})
		}
		return page
	})
}

func (s *httpService) Search(ctx context.Context, q api.SearchQuery) (api.SearchPage, error) {
	return fetched(ctx, s.web, &operation.Search.Row, "", sent{query: "?" + searchValues(q).Encode()}, func(got httpbody.Searched) api.SearchPage {
		page := api.SearchPage{Unread: got.Unread, Next: got.Next}
		for _, f := range got.Sessions {
			found := api.FoundSession{ID: f.ID, Labels: f.Labels, Model: f.Model, UpdatedAt: f.UpdatedAt}
			for _, m := range f.Matches {
				found.Matches = append(found.Matches, api.Match(m))
			}
			page.Sessions = append(page.Sessions, found)
		}
		return page
	})
}

func searchValues(q api.SearchQuery) url.Values {
	v := pageValues(q.Page)
	v["text"] = q.Texts
	for name, value := range map[string]string{"tool": q.Tool, "actor": q.Actor, "outcome": q.Outcome} {
		if value != "" {
			v.Set(name, value)
		}
	}
	for name, n := range map[string]int64{"since_ms": int64(q.Since), "until_ms": int64(q.Until), "matches": int64(q.Matches)} {
		if n != 0 {
			v.Set(name, strconv.FormatInt(n, 10))
		}
	}
	for name, value := range q.Labels {
		v.Add("label", name+"="+value)
	}
	return v
}

func pageValues(p api.Page) url.Values {
	v := url.Values{}
	if p.Cursor != "" {
		v.Set("cursor", p.Cursor)
	}
	if p.Limit != 0 {
		v.Set("limit", strconv.Itoa(p.Limit))
	}
	return v
}

func sessionValues(q api.SessionQuery) url.Values {
	v := pageValues(q.Page)
	for name, value := range map[string]string{"status": string(q.Status), "parent": string(q.Parent), "owner": q.Owner} {
		if value != "" {
			v.Set(name, value)
		}
	}
	for name, at := range map[string]events.Millis{
		"created_from_ms": q.CreatedFrom, "created_to_ms": q.CreatedTo, "updated_from_ms": q.UpdatedFrom, "updated_to_ms": q.UpdatedTo,
	} {
		if at != 0 {
			v.Set(name, strconv.FormatInt(int64(at), 10))
		}
	}
	for name, value := range q.Labels {
		v.Add("label", name+"="+value)
	}
	return v
}
