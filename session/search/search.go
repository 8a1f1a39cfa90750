package search

import (
	"context"
	"errors"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/projector/index"
	"github.com/lash-go/lash/session/api"
)

// Source has the sessions that a search reads. Its methods may be called from any number of goroutines.
type Source interface {
	// Log has the histories. It is only read.
	Log() events.Log
	// Candidates tests the index rows, see [follow.Candidates].
	Candidates(ctx context.Context, plan *index.Plan) (map[events.SessionID]*index.Row, error)
	// State is a session's state at its end.
	State(ctx context.Context, id events.SessionID) (*projector.State, error)
}

// Names lists the sessions to search, each with the time that orders it, newest first. 0 is the time of the last commit
// that its index row has; such a session without a row comes last.
type Names func(ctx context.Context) (map[events.SessionID]events.Millis, error)

// Request is what a search looks for, and how far it goes.
type Request struct {
	Query    index.Query
	Names    Names
	After    api.Position // sessions up to this one are left out. Zero: none
	Sessions int          // found sessions
	Matches  int          // turns of a session

	// Allowed reports whether a session may be read, right before it is read. nil: every session.
	Allowed func(ctx context.Context, id events.SessionID) (bool, error)
	Read    int           // sessions whose histories are read. 0: no limit
	Time    time.Duration // for reading histories; a session that takes it alone has failed. 0: no limit
}

// Result is what a search found.
type Result struct {
	Sessions  []Found
	Failed    []Failure // sessions that cannot be read; they may match
	Searched  int       // sessions
	Opened    int       // sessions whose histories were read because of their index rows
	Unindexed int       // sessions without an index row

	More bool         // a limit was reached: more may match
	Last api.Position // where More: the last session that was searched. [Request.After] of the next search
}

// Found is a session with turns that match.
type Found struct {
	Row     *index.Row
	Matches []Match
}

// Match is a turn that matches, with the event that shows it.
type Match struct {
	api.Match
	Event *events.Event
}

// Failure is a session that cannot be read.
type Failure struct {
	Session events.SessionID
	Err     error
}

// errEnough: the search has as many sessions as it returns. errTime: its time is over.
var (
	errEnough = errors.New("enough sessions")
	errTime   = errors.New("the history takes longer than a search may")
)

// searching is a search in progress.
type searching struct {
	*Request
	src  Source
	plan *index.Plan
	list *candidates
	late func() bool // the time for reading is over
	read int         // sessions that were added
	out  Result
}

// opened is a session that was read.
type opened struct {
	row     *index.Row // nil: it shows that the session does not match, or the session may not be read
	matches []Match
}

// Run searches. Sessions that cannot be read do not hide the others. Errors: those of the source where its servers do not
// answer, and the end of ctx.
func Run(ctx context.Context, src Source, r Request) (*Result, error) {
	s := &searching{Request: &r, src: src, plan: index.NewPlan(r.Query)}
	var err error
	if s.list, err = listCandidates(ctx, src, s.plan, &r); err != nil {
		return nil, err
	}
	s.out.Searched, s.out.Unindexed = s.list.searched, s.list.unindexed
	bounded, cancel := ctx, context.CancelFunc(func() {})
	if r.Time > 0 {
		bounded, cancel = context.WithTimeoutCause(ctx, r.Time, errTime)
	}
	defer cancel()
	s.late = func() bool { return errors.Is(context.Cause(bounded), errTime) }
	err = InOrder(bounded, len(s.list.all), s.open, s.add)
	if errors.Is(err, errTime) { // it ended between two sessions
		s.out.More, err = true, nil
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	if s.read > 0 {
		s.out.Last = s.list.all[s.read-1].at
	}
	return &s.out, nil
}

// open reads the history of a candidate. Where it has no index row, one is made and tested first.
func (s *searching) open(ctx context.Context, i int) (o opened, err error) {
	c := &s.list.all[i]
	if s.Allowed != nil {
		if ok, err := s.Allowed(ctx, c.session()); err != nil || !ok {
			return o, err
		}
	}
	row := c.row
	if row == nil {
		if row, err = RowOf(ctx, s.src, c.session()); err != nil {
			return o, err
		}
		if may, _ := s.plan.May(row, nil); !may {
			return o, nil
		}
	}
	o.row = row
	o.matches, err = matchesIn(ctx, s.src.Log(), c.session(), &s.Query, s.Matches)
	return o, err
}

// add adds the result of a candidate. They come in order.
func (s *searching) add(o opened, err error) error {
	late := err != nil && s.late()
	if late && s.read > 0 { // the next search has all the time for it
		s.out.More = true
		return errEnough
	}
	if s.full(o, err) {
		s.out.More = true
		return errEnough
	}
	switch {
	case late:
		err = errTime
	case errors.Is(err, events.ErrNoSession): // erased meanwhile
		err, o = nil, opened{}
	case errors.Is(err, events.ErrOutcomeUnknown), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	if s.read++; err != nil {
		s.out.Failed = append(s.out.Failed, Failure{s.list.all[s.read-1].session(), err})
		return nil
	}
	if o.row == nil {
		return nil
	}
	s.out.Opened++
	if len(o.matches) > 0 {
		s.out.Sessions = append(s.out.Sessions, Found{o.row, o.matches})
	}
	return nil
}

// full reports whether a limit leaves no room for the result of a session that may match.
func (s *searching) full(o opened, err error) bool {
	return s.Read > 0 && s.read == s.Read || len(s.out.Sessions) == s.Sessions && (err != nil || o.row != nil)
}

// RowOf makes the index row of a session that has none.
func RowOf(ctx context.Context, src Source, id events.SessionID) (*index.Row, error) {
	s, err := src.State(ctx, id)
	if err != nil {
		return nil, err
	}
	return follow.IndexRow(ctx, src.Log(), s)
}
