package api

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Finder lists sessions, turns and approval requests, and searches in texts, in pages. Lists are sorted newest first, by fields that never
// change, so new entries move no entry to another page.
//
// Sessions come from the directory. Projectors maintain it about a second behind the histories: a new session, or a
// session with a new grant, may be missing, and a row may be old. Rights are always current: a caller that is bounded
// to its own sessions finds only those that it may read by their current states.
type Finder interface {
	// Sessions lists the sessions that a query selects. A page costs a read of the
	// whole directory, in bounded batches. Errors: [*events.FieldError].
	Sessions(ctx context.Context, q SessionQuery) (SessionPage, error)
	// Turns lists a session's turns: ended, running, waiting and scheduled ones.
	// Errors: [events.ErrNoSession], [*events.FieldError].
	Turns(ctx context.Context, id events.SessionID, p Page) (TurnPage, error)
	// PendingApprovals lists the approval requests that wait for an answer: ten of each session, then the next ten of each, and
	// so on. It selects the sessions by the directory and reads their current states. A page costs a page of Sessions for each
	// round that it has a part of, and the states. Errors: [*events.FieldError].
	PendingApprovals(ctx context.Context, p Page) (ApprovalPage, error)
	// Search finds turns by their texts and by other conditions in all sessions. A page costs a read of the directory and
	// of the index rows, and of the histories of the sessions that may match, up to a number and for some seconds: then it
	// ends, with a next one. The index is up to five seconds behind a session that moves; a session without a row
	// is read. Found are messages, arguments and results of calls, questions, answers, reasons, tasks and monitors, and
	// nothing that was redacted or whose key is missing. Errors: [*events.FieldError].
	Search(ctx context.Context, q SearchQuery) (SearchPage, error)
	// ViewAt returns the conversation and its settings at a sequence. It folds the history from the
	// beginning. Errors: [events.ErrNoSession], [*events.FieldError] for sequence 0 and for one after the end.
	ViewAt(ctx context.Context, id events.SessionID, seq events.Seq) (projector.ReadView, error)
}

// Sizes of pages, in entries.
const (
	DefaultPage = 100
	MaxPage     = 1000
)

// MaxApprovalPageBytes ends a page of approvals once their arguments have this size, in bytes.
const MaxApprovalPageBytes = 4 << 20

// ApprovalRound is the number of questions of one session that a list of approvals has before it goes on to the next session.
const ApprovalRound = 10

// MaxQueryLabels limits the labels of a query.
const MaxQueryLabels = 16

// Page selects a part of a list.
type Page struct {
	Cursor string `query:"cursor"` // [SessionPage.Next] of the previous page. Empty: the first page
	Limit  int    `query:"limit"`  // entries, up to [MaxPage]. Defaults to [DefaultPage]
}

// SessionQuery selects sessions that match all set fields.
type SessionQuery struct {
	Page
	Status projector.Status  `query:"status"` // opening, open, closed, erasing or erased. Empty: any of the first three
	Labels map[string]string `query:"label"`  // labels of the session, with these values
	Parent events.SessionID  `query:"parent"`
	Owner  string            `query:"owner"`

	CreatedFrom events.Millis `query:"created_from_ms"` // inclusive; 0: no bound
	CreatedTo   events.Millis `query:"created_to_ms"`   // exclusive; 0: no bound
	UpdatedFrom events.Millis `query:"updated_from_ms"` // likewise, for the last commit
	UpdatedTo   events.Millis `query:"updated_to_ms"`
}

// SessionSummary is a session as the directory has it.
type SessionSummary struct {
	ID        events.SessionID  `json:"id"`
	Seq       events.Seq        `json:"seq" jsonschema:"sequence of the last commit that the row includes"`
	Status    projector.Status  `json:"status"`
	Parent    events.SessionID  `json:"parent,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Owner     string            `json:"owner,omitempty"`
	Turns     int64             `json:"turns" jsonschema:"number of turns ever started"`
	Running   events.TurnID     `json:"running,omitempty"` // empty: none
	Queued    int               `json:"queued" jsonschema:"number of waiting turns"`
	Tasks     int               `json:"tasks" jsonschema:"number of tasks that have not ended"`
	Approvals int               `json:"approvals" jsonschema:"number of calls that wait for an approval"`
	CreatedAt events.Millis     `json:"created_at_ms"`
	UpdatedAt events.Millis     `json:"updated_at_ms"`
}

// SessionPage is a part of a list of sessions.
type SessionPage struct {
	Sessions []SessionSummary `json:"sessions" jsonschema:"the newest first; rows, and sessions that the caller may read since recently, lag by about a second"`
	Next     string           `json:"next,omitempty" jsonschema:"cursor of the next page; omitted: this is the last page"`
}

// TurnStatus is the status of a turn.
type TurnStatus string

// Values of [TurnStatus].
const (
	TurnEnded     TurnStatus = "ended"
	TurnRunning   TurnStatus = "running"
	TurnAsking    TurnStatus = "asking"    // it runs, and one of its calls, or of an agent's, waits for an approval
	TurnWaiting   TurnStatus = "waiting"   // behind another one
	TurnScheduled TurnStatus = "scheduled" // for its time
)

// StatusOf is the status of the turn at a place of a state. Lists of turns and reads of one turn have it from here. Empty:
// the session has no such turn. asks: calls of the session or of its agents wait for an approval.
func StatusOf(at projector.TurnPlace, asks bool) TurnStatus {
	switch {
	case at.Running != nil && asks:
		return TurnAsking
	case at.Running != nil:
		return TurnRunning
	case at.Queued != nil:
		return TurnWaiting
	case at.Scheduled != nil:
		return TurnScheduled
	case at.Ended != nil:
		return TurnEnded
	}
	return ""
}

// TurnSummary is a turn of a session.
type TurnSummary struct {
	ID          events.TurnID
	Status      TurnStatus
	End         events.TurnEnd     // of ended turns
	Issue       events.Issue       // why it failed; zero: it did not fail
	Asks        []events.SessionID // of [TurnAsking]: whose calls wait for an approval, this session's or those of agents
	By          events.TurnID      // of a diverted turn: the turn that ran
	Session     events.SessionID   // of a branched turn: the session in which it continues
	ModelCalls  int64
	ToolCalls   int64
	Usage       events.Usage
	RequestedAt events.Millis
	StartedAt   events.Millis // 0: it has not started
	CompletedAt events.Millis // 0: it has not ended
	Due         events.Millis // of scheduled turns
	Accepted    events.Seq    // of the commit that accepted it
}

// TurnPage is a part of a session's turns.
type TurnPage struct {
	Turns []TurnSummary
	Next  string // as in [SessionPage]
}

// PendingApproval is an approval request of a session. Arguments above the inline limit are a reference.
type PendingApproval struct {
	Session events.SessionID
	projector.Approval
}

// Asking are the sessions of approval requests, each once.
func Asking(list []PendingApproval) (sessions []events.SessionID) {
	for i := range list {
		if id := list[i].Session; !slices.Contains(sessions, id) {
			sessions = append(sessions, id)
		}
	}
	return sessions
}

// ApprovalPage is a part of the approval requests of all sessions.
type ApprovalPage struct {
	Approvals []PendingApproval
	Next      string // as in [SessionPage]
	Count     int    // of all pages, as the directory has it: about a second behind
}

// Check returns the page size, with its default. It refuses a size out of range.
func (p Page) Check() (limit int, err error) {
	switch {
	case p.Limit < 0 || p.Limit > MaxPage:
		return 0, invalidQuery("limit", fmt.Sprintf("is %d, want 1 to %d", p.Limit, MaxPage))
	case p.Limit == 0:
		return DefaultPage, nil
	}
	return p.Limit, nil
}

// Check refuses values that no session can have.
func (q *SessionQuery) Check() error {
	switch q.Status {
	case "", projector.StatusOpening, projector.StatusOpen, projector.StatusClosed, projector.StatusErasing, projector.StatusErased:
	default:
		return invalidQuery("status", fmt.Sprintf("%.20q is none of opening, open, closed, erasing and erased", q.Status))
	}
	for name, token := range map[string]string{"owner": q.Owner, "parent": string(q.Parent)} {
		if token == "" {
			continue
		}
		if err := events.CheckToken(name, token); err != nil {
			return err
		}
	}
	if err := checkLabels(q.Labels); err != nil {
		return err
	}
	for name, at := range map[string]events.Millis{
		"created_from": q.CreatedFrom, "created_to": q.CreatedTo, "updated_from": q.UpdatedFrom, "updated_to": q.UpdatedTo,
	} {
		if at < 0 {
			return invalidQuery(name, "is negative")
		}
	}
	return nil
}

// checkLabels checks the labels of a query.
func checkLabels(labels map[string]string) error {
	if len(labels) > MaxQueryLabels {
		return invalidQuery("label", fmt.Sprintf("occurs %d times, limit is %d", len(labels), MaxQueryLabels))
	}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if size := len(name) + len(labels[name]); name == "" || size > maxQueryLabel {
			return invalidQuery("label", fmt.Sprintf("has %d bytes, want a name, and at most %d", size, maxQueryLabel))
		}
	}
	return nil
}

// maxQueryLabel limits a label of a query, name and value together, in bytes.
const maxQueryLabel = 1024

func invalidQuery(field, reason string) error {
	return &events.FieldError{Field: field, Reason: reason, Err: events.ErrInvalid}
}
