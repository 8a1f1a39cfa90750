package api

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Finder lists sessions, their turns and what waits for an answer, page by
// page. Lists begin with the newest, by what never changes of an entry: what is
// added meanwhile moves nothing from one page to another.
//
// Sessions come from the directory, which projectors keep and which lags behind
// the histories, by about a second: a session that was just opened, or just let
// a caller in, may be missing, and a row may be old. Rights do not lag: a caller
// that is bounded to its own sessions gets those alone that it may read by their states now.
type Finder interface {
	// Sessions lists the sessions that a query selects. A page costs a read of the
	// whole directory, in bounded batches. Errors: [*events.FieldError].
	Sessions(ctx context.Context, q SessionQuery) (SessionPage, error)
	// Turns lists a session's turns: ended, running, waiting and scheduled ones.
	// Errors: [events.ErrNoSession], [*events.FieldError].
	Turns(ctx context.Context, id events.SessionID, p Page) (TurnPage, error)
	// PendingApprovals lists the questions that wait for an answer in every
	// session that the directory says has some, as the sessions' states say now.
	// A page costs what one of Sessions does, and the states. Errors: [*events.FieldError].
	PendingApprovals(ctx context.Context, p Page) (ApprovalPage, error)
	// ViewAt is the conversation, with what stood beside it, as it was at a sequence, or at the end where
	// that comes before; the view says which. It costs a fold from the beginning.
	// Errors: [events.ErrNoSession], [*events.FieldError] for sequence 0.
	ViewAt(ctx context.Context, id events.SessionID, seq events.Seq) (projector.ReadView, error)
}

// The sizes of pages, in entries.
const (
	DefaultPage = 100
	MaxPage     = 1000
)

// MaxApprovalPageBytes is the size of arguments from which on a page of approvals ends, in bytes.
const MaxApprovalPageBytes = 4 << 20

// MaxQueryLabels is how many labels a query may name.
const MaxQueryLabels = 16

// Page asks for a part of a list.
type Page struct {
	Cursor string // [SessionPage.Next] of the page before. Empty: the first
	Limit  int    // entries, up to [MaxPage]. Defaults to [DefaultPage]
}

// SessionQuery selects sessions: those for which everything holds that is set.
type SessionQuery struct {
	Page
	Status projector.Status  // opening, open, closed, erasing or erased. Empty: any of the first three
	Labels map[string]string // that the session has, with these values
	Parent events.SessionID
	Owner  string

	CreatedFrom, CreatedTo events.Millis // from the first on and before the second; 0: no bound
	UpdatedFrom, UpdatedTo events.Millis // likewise, of the last commit
}

// SessionSummary is a session as the directory has it.
type SessionSummary struct {
	ID        events.SessionID
	Seq       events.Seq // of the last commit that the row knows
	Status    projector.Status
	Parent    events.SessionID
	Labels    map[string]string
	Owner     string
	Turns     int64         // ever started
	Running   events.TurnID // empty: none
	Queued    int           // turns that wait
	Tasks     int           // live ones
	Approvals int           // questions that wait for an answer
	CreatedAt events.Millis
	UpdatedAt events.Millis
}

// SessionPage is a part of a list of sessions.
type SessionPage struct {
	Sessions []SessionSummary
	Next     string // cursor of the next page; empty: there is none
}

// TurnStatus says where a turn stands.
type TurnStatus string

// The statuses.
const (
	TurnEnded     TurnStatus = "ended"
	TurnRunning   TurnStatus = "running"
	TurnAsking    TurnStatus = "asking"    // it runs, and a call of it waits for an approval
	TurnWaiting   TurnStatus = "waiting"   // behind another one
	TurnScheduled TurnStatus = "scheduled" // for its time
)

// TurnSummary is a turn of a session.
type TurnSummary struct {
	ID          events.TurnID
	Status      TurnStatus
	End         events.TurnEnd   // of ended ones
	Issue       events.Issue     // why it failed; zero: it did not
	By          events.TurnID    // of a diverted one: the turn in its way
	Session     events.SessionID // of one that branched: where it goes on
	ModelCalls  int64
	ToolCalls   int64
	Usage       events.Usage
	RequestedAt events.Millis
	StartedAt   events.Millis // 0: it has not
	CompletedAt events.Millis // 0: it has not
	Due         events.Millis // of scheduled ones
	Accepted    events.Seq    // of the commit that accepted it
}

// TurnPage is a part of a session's turns.
type TurnPage struct {
	Turns []TurnSummary
	Next  string // as in [SessionPage]
}

// PendingApproval is a question in a session. Arguments above the inline cap are a reference.
type PendingApproval struct {
	Session events.SessionID
	projector.Approval
}

// ApprovalPage is a part of the questions of all sessions.
type ApprovalPage struct {
	Approvals []PendingApproval
	Next      string // as in [SessionPage]
}

// Check refuses a size that no page has, and gives the one that counts.
func (p Page) Check() (limit int, err error) {
	switch {
	case p.Limit < 0 || p.Limit > MaxPage:
		return 0, invalidQuery("limit", fmt.Sprintf("is %d, want 1 to %d", p.Limit, MaxPage))
	case p.Limit == 0:
		return DefaultPage, nil
	}
	return p.Limit, nil
}

// Check refuses what no session can be.
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
	if len(q.Labels) > MaxQueryLabels {
		return invalidQuery("label", fmt.Sprintf("stands %d times, limit is %d", len(q.Labels), MaxQueryLabels))
	}
	for _, name := range slices.Sorted(maps.Keys(q.Labels)) {
		if size := len(name) + len(q.Labels[name]); name == "" || size > maxQueryLabel {
			return invalidQuery("label", fmt.Sprintf("has %d bytes, want a name, and at most %d", size, maxQueryLabel))
		}
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

// maxQueryLabel is how long a label of a query may be, name and value, in bytes.
const maxQueryLabel = 1024

func invalidQuery(field, reason string) error {
	return &events.FieldError{Field: field, Reason: reason, Err: events.ErrInvalid}
}
