package httpapi

import (
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

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

func (out *listedTurnJSON) adjust(from any) { out.Tokens = from.(*api.TurnSummary).Usage.Total() }
