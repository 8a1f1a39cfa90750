package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

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
behind a session that moves. A session without a row, as in an archive file, is read.`
}

// found is the output of search with --json.
type found struct {
	Sessions  []foundSession `json:"sessions"`
	Searched  int            `json:"searched"`  // sessions
	Opened    int            `json:"opened"`    // sessions that were read
	Unindexed int            `json:"unindexed"` // sessions without an index row
	More      bool           `json:"more"`      // the limit was reached: more may match
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
	over := e.Waiting("the search, which reads sessions without an index row")
	out, err := search(ctx, src, q, c.Limit, c.Matches)
	over()
	if err != nil {
		return err
	}
	if c.JSON {
		return e.writeJSON(out)
	}
	return e.paged(func() error {
		out.print(e)
		return nil
	})
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

// search tests the index rows, and reads the sessions that may match.
func search(ctx context.Context, src source, q index.Query, limit, perSession int) (*found, error) {
	list, err := listCandidates(ctx, src, index.NewPlan(q))
	if err != nil {
		return nil, err
	}
	out := &found{Sessions: []foundSession{}, Searched: list.searched, Unindexed: len(list.without)}
	visit := func(row *index.Row) error {
		if len(out.Sessions) == limit {
			out.More = true
			return nil
		}
		out.Opened++
		matches, err := matchesIn(ctx, src.Log(), row.Session, &q, perSession)
		if errors.Is(err, events.ErrNoSession) {
			return nil // erased meanwhile
		}
		if err == nil && len(matches) > 0 {
			out.Sessions = append(out.Sessions, foundSession{Session: row.Session, UpdatedAt: eventjson.Clock(row.At), Model: row.Model, Labels: row.Labels, Matches: matches})
		}
		return err
	}
	for _, row := range list.rows {
		if err := visit(row); err != nil {
			return nil, err
		}
	}
	plan, buf := index.NewPlan(q), []byte(nil)
	for _, id := range list.without {
		row, err := rowOf(ctx, src, id)
		if errors.Is(err, events.ErrNoSession) {
			continue
		}
		if err != nil {
			return nil, err
		}
		may := false
		if may, buf = plan.May(row, buf); may {
			if err := visit(row); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
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
	list, indexed, buf := &candidates{}, make(map[events.SessionID]bool), []byte(nil)
	for row, err := range src.Index(ctx) {
		if err != nil {
			wait.Wait()
			return nil, err
		}
		indexed[row.Session] = true
		may := false
		if may, buf = plan.May(row, buf); may {
			list.rows = append(list.rows, row)
		}
	}
	wait.Wait()
	if idsErr != nil {
		return nil, idsErr
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
	text := fmt.Sprintf("%s of %s, %d read", number(int64(len(f.Sessions)), "session"), number(int64(f.Searched), "session"), f.Opened)
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
