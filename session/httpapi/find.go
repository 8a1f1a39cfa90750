package httpapi

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// sessionsJSON are a page of the sessions that the caller may read.
type sessionsJSON struct {
	Sessions []listedSessionJSON `json:"sessions" jsonschema:"the newest first; rows, and sessions that the caller may read since recently, lag by about a second"`
	Next     string              `json:"next,omitempty" jsonschema:"cursor of the next page; omitted: this is the last page"`
}

// listedSessionJSON is a session as the directory has it.
type listedSessionJSON struct {
	ID        events.SessionID  `json:"id"`
	Seq       events.Seq        `json:"seq" jsonschema:"sequence of the last commit that the row includes"`
	Status    projector.Status  `json:"status"`
	Parent    events.SessionID  `json:"parent,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Owner     string            `json:"owner,omitempty"`
	Turns     int64             `json:"turns" jsonschema:"number of turns ever started"`
	Running   events.TurnID     `json:"running,omitempty"`
	Queued    int               `json:"queued" jsonschema:"number of waiting turns"`
	Tasks     int               `json:"tasks" jsonschema:"number of tasks that have not ended"`
	Approvals int               `json:"approvals" jsonschema:"number of calls that wait for an approval"`
	CreatedAt events.Millis     `json:"created_at_ms"`
	UpdatedAt events.Millis     `json:"updated_at_ms"`
}

// turnsJSON are a page of a session's turns.
type turnsJSON struct {
	Turns []listedTurnJSON `json:"turns" jsonschema:"the one that was accepted last comes first"`
	Next  string           `json:"next,omitempty" jsonschema:"cursor of the next page; omitted: this is the last page"`
}

// listedTurnJSON is a turn of a session.
type listedTurnJSON struct {
	ID          events.TurnID      `json:"id"`
	Status      api.TurnStatus     `json:"status"`
	End         events.TurnEnd     `json:"end,omitempty" jsonschema:"of an ended turn: its outcome"`
	Issue       *turnIssueJSON     `json:"issue,omitempty" jsonschema:"of an ended turn: why it failed"`
	Asks        []events.SessionID `json:"asks,omitempty" jsonschema:"of asking: the sessions whose calls wait for an approval, this one or those of agents"`
	By          events.TurnID      `json:"by,omitempty" jsonschema:"of a diverted turn: the turn that ran"`
	Session     events.SessionID   `json:"session,omitempty" jsonschema:"of a turn that branched: the session that runs it"`
	ModelCalls  int64              `json:"model_calls" jsonschema:"number of model calls of an ended turn"`
	ToolCalls   int64              `json:"tool_calls"`
	Tokens      int64              `json:"tokens,omitempty" jsonschema:"number of tokens: input, output and cache together; missing: no provider told it"`
	Accepted    events.Seq         `json:"accepted" jsonschema:"sequence of the commit that accepted the turn"`
	RequestedAt events.Millis      `json:"requested_at_ms"`
	StartedAt   events.Millis      `json:"started_at_ms,omitempty"`
	CompletedAt events.Millis      `json:"completed_at_ms,omitempty"`
	Due         events.Millis      `json:"due_ms,omitempty" jsonschema:"start time of a scheduled turn, in milliseconds since 1970"`
}

// turnIssueJSON is the reason why a turn failed.
type turnIssueJSON struct {
	Kind    string `json:"kind"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// pendingApprovalsJSON are a page of the approval requests in all sessions that the caller may read.
type pendingApprovalsJSON struct {
	Approvals []pendingApprovalJSON `json:"approvals" jsonschema:"ten of each session, those of the newest session first, then the next ten of each; a new one may be missing for about a second"`
	Next      string                `json:"next,omitempty" jsonschema:"cursor of the next page; omitted: this is the last page"`
	Count     int                   `json:"count" jsonschema:"number of those of all pages; it lags by about a second"`
}

// pendingApprovalJSON is a call that waits for an approval, with its session.
type pendingApprovalJSON struct {
	Session events.SessionID `json:"session"`
	approvalJSON
}

func (c *httpRequest) sessionQuery() (q api.SessionQuery, err error) {
	values := c.URL.Query()
	if q.Page, err = c.page(); err != nil {
		return q, err
	}
	q.Status, q.Parent, q.Owner = projector.Status(values.Get("status")), events.SessionID(values.Get("parent")), values.Get("owner")
	if q.Labels, err = c.labels(); err != nil {
		return q, err
	}
	return q, c.times(map[string]*events.Millis{
		"created_from_ms": &q.CreatedFrom, "created_to_ms": &q.CreatedTo, "updated_from_ms": &q.UpdatedFrom, "updated_to_ms": &q.UpdatedTo,
	})
}

// labels are the values of the parameter label, by name.
func (c *httpRequest) labels() (list map[string]string, err error) {
	for _, label := range c.URL.Query()[labelParam] {
		name, value, ok := strings.Cut(label, "=")
		if other, twice := list[name]; !ok || name == "" || twice && other != value {
			return nil, invalidParam(labelParam, "must be NAME=VALUE, with one value for a name")
		}
		if list == nil {
			list = make(map[string]string)
		}
		list[name] = value
	}
	return list, nil
}

// times sets times to the values of their parameters.
func (c *httpRequest) times(list map[string]*events.Millis) error {
	for name, into := range list {
		n, err := c.number(name, 1<<62)
		if err != nil {
			return err
		}
		*into = events.Millis(n)
	}
	return nil
}

// page is the part of a list that a request selects.
func (c *httpRequest) page() (api.Page, error) {
	limit, err := c.count("limit", api.MaxPage)
	return api.Page{Cursor: c.URL.Query().Get("cursor"), Limit: limit}, err
}

// count is a parameter's value, from 1; 0 where it is absent.
func (c *httpRequest) count(name string, most int) (int, error) {
	n, err := c.number(name, uint64(most))
	if err == nil && n == 0 && c.URL.Query().Has(name) {
		err = invalidParam(name, fmt.Sprintf("must be 1 to %d", most))
	}
	return int(n), err
}

// number is a parameter's value; 0 where it is absent.
func (c *httpRequest) number(name string, most uint64) (uint64, error) {
	if !c.URL.Query().Has(name) {
		return 0, nil
	}
	n, err := strconv.ParseUint(c.URL.Query().Get(name), 10, 64)
	if err != nil || n > most {
		return 0, invalidParam(name, fmt.Sprintf("must be a number up to %d", most))
	}
	return n, nil
}

func sessions(page api.SessionPage) sessionsJSON {
	out := sessionsJSON{Sessions: make([]listedSessionJSON, len(page.Sessions)), Next: page.Next}
	for i := range page.Sessions {
		out.Sessions[i] = listedSessionJSON(page.Sessions[i])
	}
	return out
}

func turns(page api.TurnPage) turnsJSON {
	out := turnsJSON{Turns: make([]listedTurnJSON, len(page.Turns)), Next: page.Next}
	for i := range page.Turns {
		t := &page.Turns[i]
		out.Turns[i] = listedTurnJSON{
			ID: t.ID, Status: t.Status, Asks: t.Asks, End: t.End, By: t.By, Session: t.Session, ModelCalls: t.ModelCalls, ToolCalls: t.ToolCalls, Tokens: t.Usage.Total(),
			Accepted: t.Accepted, RequestedAt: t.RequestedAt, StartedAt: t.StartedAt, CompletedAt: t.CompletedAt, Due: t.Due,
		}
		if !t.Issue.IsZero() {
			out.Turns[i].Issue = &turnIssueJSON{Kind: t.Issue.Kind, Code: t.Issue.Code, Message: t.Issue.Message}
		}
	}
	return out
}

func pendingApprovals(page api.ApprovalPage) pendingApprovalsJSON {
	out := pendingApprovalsJSON{Approvals: make([]pendingApprovalJSON, len(page.Approvals)), Next: page.Next, Count: page.Count}
	for i := range page.Approvals {
		out.Approvals[i] = pendingApproval(&page.Approvals[i])
	}
	return out
}
