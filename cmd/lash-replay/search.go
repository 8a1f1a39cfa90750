package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/lash-go/lash/cmd/internal/program"

	"github.com/lash-go/lash/cmd/internal/point"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/projector/index"
	"github.com/lash-go/lash/session/transcript"
)

type searchCmd struct {
	Text    []string          `arg:"" optional:"" help:"Texts that all occur in one turn, each as a whole, without regard to case."`
	Tool    string            `placeholder:"NAME" help:"A turn that called this tool."`
	Actor   string            `placeholder:"NAME" help:"A turn with a request, an answer or another commit of this actor: client:alice, or alice."`
	Outcome string            `placeholder:"OUTCOME" help:"A turn, or a call in it, with this outcome: finished, cancelled, failure, lost, granted, refused, ..."`
	Since   point.Point       `placeholder:"TIME" help:"Events at or after a time: 2026-11-25T18:30:00Z, or 24h for the last day."`
	Until   point.Point       `placeholder:"TIME" help:"Events before or at a time."`
	Label   map[string]string `placeholder:"KEY=VALUE" help:"Sessions with a label; KEY= for any value. Repeatable."`
	Limit   int               `default:"20" placeholder:"N" help:"At most N sessions, the ones that moved last first. Default: ${default}."`
	Matches int               `default:"3" placeholder:"N" help:"At most N turns of a session. Default: ${default}."`
	JSON    bool              `name:"json" help:"Print one JSON object."`
}

// Help is shown by --help.
func (*searchCmd) Help() string {
	return `Finds turns in all sessions, cold ones too. Everything that is named must be found in one turn; outside of turns, in one commit. Found are messages,
arguments and results of calls, questions, answers, reasons, tasks and monitors; of a word longer than 64 bytes its beginning, and
no bodies outside the log.

Nodes keep an index: a row of words for each session. Only sessions that may match are opened, and their histories decide. The index is up to five seconds
behind a session that moves. A session without a row, as in an archive file, is read. A session that cannot be read is named
on stderr, the others are shown, and the exit code is 2.`
}

// found is the output of search with --json.
type found struct {
	Sessions  []foundSession `json:"sessions"`
	Searched  int            `json:"searched"`  // sessions
	Opened    int            `json:"opened"`    // sessions that were read
	Unindexed int            `json:"unindexed"` // sessions without an index row
	More      bool           `json:"more"`      // the limit was reached: more may match

	Failed []failedSession `json:"failed,omitempty"` // sessions that cannot be read; they may match
}

type failedSession struct {
	Session events.SessionID `json:"session"`
	Error   string           `json:"error"`
}

type foundSession struct {
	Session   events.SessionID  `json:"session"`
	UpdatedAt string            `json:"updated_at"`
	Model     string            `json:"model,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Matches   []match           `json:"matches"`
}

// match is a turn that matches, with the event that shows it.
type match struct {
	Turn  events.TurnID `json:"turn,omitempty"`
	Seq   events.Seq    `json:"seq"`
	Pos   int           `json:"pos"`
	Time  string        `json:"time"`
	Kind  events.Kind   `json:"kind"`
	Actor string        `json:"actor"`
	Text  string        `json:"text"` // around the first text
}

// Run searches.
func (c *searchCmd) Run(ctx context.Context, e *env) error {
	q, err := c.query(e)
	if err != nil {
		return err
	}
	e.source.defaults()
	src, err := e.open(ctx, "")
	if err != nil {
		return err
	}
	defer src.Close()
	if src, err = e.cutAt(ctx, src); err != nil {
		return err
	}
	over := e.NoteWait("the search, which reads sessions without an index row")
	out, err := search(ctx, src, q, c.Limit, c.Matches)
	over()
	if err != nil {
		return err
	}
	if c.JSON {
		err = e.writeJSON(out)
	} else {
		err = e.paged(func() error {
			out.print(e)
			return nil
		})
	}
	if err != nil || len(out.Failed) == 0 {
		return err
	}
	for _, f := range out.Failed {
		e.Printf("session %s cannot be read: %s", f.Session, f.Error)
	}
	return fmt.Errorf("%s could not be searched: lash-replay verify says what is wrong with them", program.Number(int64(len(out.Failed)), "session"))
}

func (c *searchCmd) query(e *env) (q index.Query, err error) {
	q = index.Query{Texts: c.Text, Tool: c.Tool, Actor: c.Actor, Outcome: c.Outcome, Labels: c.Label}
	for _, t := range []struct {
		flag string
		at   point.Point
		into *events.Millis
	}{{"--since", c.Since, &q.Since}, {"--until", c.Until, &q.Until}} {
		if t.at == "" {
			continue
		}
		at, ok := t.at.Time(e.now())
		if !ok {
			return q, fmt.Errorf("%s %s: want a time such as 2026-11-25T18:30:00Z, or a duration such as 24h", t.flag, quoted(string(t.at)))
		}
		*t.into = at
	}
	switch {
	case slices.Contains(q.Texts, ""):
		err = errors.New("an empty text occurs everywhere: leave it out")
	case len(q.Texts) == 0 && q.Tool == "" && q.Actor == "" && q.Outcome == "" && q.Since == 0 && q.Until == 0 && len(q.Labels) == 0:
		err = errors.New("search for what? give a text, --tool, --actor, --outcome, --since, --until or --label")
	case c.Limit < 1 || c.Matches < 1:
		err = errors.New("--limit and --matches are at least 1")
	}
	return q, err
}

// candidates are the index rows that may match, the ones that moved last first, and the sessions without a row.
type candidates struct {
	rows     []*index.Row
	without  []events.SessionID
	searched int
}

// searching is a search of sessions that may match.
type searching struct {
	src               source
	q                 *index.Query
	limit, perSession int
	out               *found
}

// opened is a session that was read.
type opened struct {
	session events.SessionID
	row     *index.Row // nil: its row shows that it does not match
	matches []match
}

// errLimit: the search has as many sessions as it shows.
var errLimit = errors.New("enough sessions")

// search tests the index rows, and reads the sessions that may match.
func search(ctx context.Context, src source, q index.Query, limit, perSession int) (*found, error) {
	list, err := listCandidates(ctx, src, index.NewPlan(q))
	if err != nil {
		return nil, err
	}
	out := &found{Sessions: []foundSession{}, Searched: list.searched, Unindexed: len(list.without)}
	s := &searching{src: src, q: &q, limit: limit, perSession: perSession, out: out}
	err = ordered(ctx, len(list.rows), func(ctx context.Context, i int) (opened, error) {
		return s.open(ctx, list.rows[i].Session, list.rows[i])
	}, s.add)
	if err == nil {
		err = ordered(ctx, len(list.without), func(ctx context.Context, i int) (opened, error) {
			return s.open(ctx, list.without[i], nil)
		}, s.add)
	}
	if errors.Is(err, errLimit) {
		err = nil
	}
	return out, err
}

// open reads a session. row is nil where it has no index row: then one is made, and tested first.
func (s *searching) open(ctx context.Context, id events.SessionID, row *index.Row) (opened, error) {
	o := opened{session: id}
	if row == nil {
		made, err := rowOf(ctx, s.src, id)
		if err != nil {
			return o, err
		}
		if may, _ := index.NewPlan(*s.q).May(made, nil); !may {
			return o, nil
		}
		row = made
	}
	o.row = row
	var err error
	o.matches, err = matchesIn(ctx, s.src.Log(), id, s.q, s.perSession)
	return o, err
}

// add adds the result of a session. One that cannot be read does not hide the others, unless the servers do not answer.
func (s *searching) add(o opened, err error) error {
	switch {
	case errors.Is(err, events.ErrNoSession): // erased meanwhile
		return nil
	case errors.Is(err, events.ErrOutcomeUnknown), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case err == nil && o.row == nil:
		return nil
	case len(s.out.Sessions) == s.limit:
		s.out.More = true
		return errLimit
	case err != nil:
		s.out.Failed = append(s.out.Failed, failedSession{o.session, err.Error()})
		return nil
	}
	s.out.Opened++
	if len(o.matches) > 0 {
		s.out.Sessions = append(s.out.Sessions, foundSession{Session: o.session, UpdatedAt: eventjson.Clock(o.row.At), Model: o.row.Model, Labels: o.row.Labels, Matches: o.matches})
	}
	return nil
}

// rowOf makes the row of a session that has none.
func rowOf(ctx context.Context, src source, id events.SessionID) (*index.Row, error) {
	s, err := src.State(ctx, id)
	if err != nil {
		return nil, err
	}
	return follow.IndexRow(ctx, src.Log(), s)
}

func listCandidates(ctx context.Context, src source, plan *index.Plan) (*candidates, error) {
	var ids []events.SessionID
	var idsErr error
	var wait sync.WaitGroup
	wait.Go(func() { ids, idsErr = src.Names(ctx) }) // while the rows are read
	list, indexed := &candidates{}, make(map[events.SessionID]bool)
	var mu sync.Mutex
	err := eachRow(ctx, src, func() func(*index.Row) {
		var buf []byte
		return func(row *index.Row) {
			may := false
			may, buf = plan.May(row, buf)
			mu.Lock()
			defer mu.Unlock()
			indexed[row.Session] = true
			if may {
				list.rows = append(list.rows, row)
			}
		}
	})
	wait.Wait()
	if err = cmp.Or(err, idsErr); err != nil {
		return nil, err
	}
	for _, id := range ids {
		if !indexed[id] {
			list.without = append(list.without, id)
		}
	}
	list.searched = len(indexed) + len(list.without)
	slices.SortFunc(list.rows, func(a, b *index.Row) int { return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(a.Session, b.Session)) })
	return list, nil
}

func (f *found) print(e *env) {
	for i := range f.Sessions {
		s := &f.Sessions[i]
		e.painted("1", string(s.Session))
		e.printf("  %s\n", joined(s.UpdatedAt, prefixed("model ", s.Model), labelText(s.Labels)))
		for _, m := range s.Matches {
			e.printf("  %-7s ", fmt.Sprintf("%d.%d", m.Seq, m.Pos))
			e.painted("36", transcript.VisibleLine(cmp.Or(string(m.Turn), "-")))
			e.printf(" %s %s  %s\n", m.Kind, transcript.VisibleLine(quoted(m.Actor)), transcript.VisibleLine(m.Text))
		}
	}
	text := fmt.Sprintf("%s of %s, %d read", program.Number(int64(len(f.Sessions)), "session"), program.Number(int64(f.Searched), "session"), f.Opened)
	if f.Unindexed > 0 {
		text += fmt.Sprintf(", %d without an index row", f.Unindexed)
	}
	if f.More {
		text += "; more may match: --limit N shows more"
	}
	e.println(text)
}

// labelText lists labels, on one line.
func labelText(labels map[string]string) string {
	list := make([]string, 0, len(labels))
	for key, value := range labels {
		list = append(list, quoted(key)+"="+quoted(value))
	}
	slices.Sort(list)
	return joined(list...)
}
