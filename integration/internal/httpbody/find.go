package httpbody

import (
	"encoding/json"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// Sessions are a page of the sessions that the caller may read.
type Sessions struct {
	Sessions []ListedSession `json:"sessions"`
	Next     string          `json:"next,omitempty"`
}

// ListedSession is a session as the directory has it.
type ListedSession struct {
	ID        events.SessionID  `json:"id"`
	Seq       events.Seq        `json:"seq"`
	Status    projector.Status  `json:"status"`
	Parent    events.SessionID  `json:"parent,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Owner     string            `json:"owner,omitempty"`
	Turns     int64             `json:"turns"`
	Running   events.TurnID     `json:"running,omitempty"`
	Queued    int               `json:"queued"`
	Tasks     int               `json:"tasks"`
	Approvals int               `json:"approvals"`
	CreatedAt events.Millis     `json:"created_at_ms"`
	UpdatedAt events.Millis     `json:"updated_at_ms"`
}

// Turns are a page of a session's turns.
type Turns struct {
	Turns []ListedTurn `json:"turns"`
	Next  string       `json:"next,omitempty"`
}

// ListedTurn is a turn of a session.
type ListedTurn struct {
	ID          events.TurnID      `json:"id"`
	Status      api.TurnStatus     `json:"status"`
	End         events.TurnEnd     `json:"end,omitempty"`
	Issue       *TurnIssue         `json:"issue,omitempty"`
	Asks        []events.SessionID `json:"asks,omitempty"`
	By          events.TurnID      `json:"by,omitempty"`
	Session     events.SessionID   `json:"session,omitempty"`
	ModelCalls  int64              `json:"model_calls"`
	ToolCalls   int64              `json:"tool_calls"`
	Tokens      int64              `json:"tokens"`
	Accepted    events.Seq         `json:"accepted"`
	RequestedAt events.Millis      `json:"requested_at_ms"`
	StartedAt   events.Millis      `json:"started_at_ms,omitempty"`
	CompletedAt events.Millis      `json:"completed_at_ms,omitempty"`
	Due         events.Millis      `json:"due_ms,omitempty"`
}

// TurnIssue is the reason why a turn failed.
type TurnIssue struct {
	Kind    string `json:"kind"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// PendingApprovals are a page of the approval requests in all sessions that the caller may read.
type PendingApprovals struct {
	Approvals []PendingApproval `json:"approvals"`
	Next      string            `json:"next,omitempty"`
	Count     int               `json:"count"`
}

// PendingApproval is a call that waits for an approval, with its session.
type PendingApproval struct {
	Session  events.SessionID `json:"session"`
	Call     events.EffectID  `json:"call"`
	Tool     string           `json:"tool"`
	Args     json.RawMessage  `json:"args,omitempty"`
	Blob     *Blob            `json:"blob,omitempty"`
	Plugin   string           `json:"plugin"`
	Question string           `json:"question"`
}

// Searched is a page of the sessions that a search found.
type Searched struct {
	Sessions []FoundSession `json:"sessions"`
	Unread   int            `json:"unread,omitempty"`
	Next     string         `json:"next,omitempty"`
}

// FoundSession is a session with turns that match.
type FoundSession struct {
	ID        events.SessionID  `json:"id"`
	Labels    map[string]string `json:"labels,omitempty"`
	Model     string            `json:"model,omitempty"`
	UpdatedAt events.Millis     `json:"updated_at_ms"`
	Matches   []Match           `json:"matches"`
}

// Match is a turn that matches.
type Match struct {
	Turn  events.TurnID `json:"turn,omitempty"`
	Seq   events.Seq    `json:"seq"`
	Pos   int           `json:"pos"`
	At    events.Millis `json:"at_ms"`
	Kind  events.Kind   `json:"kind"`
	Actor string        `json:"actor"`
	Text  string        `json:"text,omitempty"`
}
