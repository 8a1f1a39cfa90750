package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lash-go/lash/cmd/internal/program"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector/index"
	"github.com/lash-go/lash/session/api"
	textsearch "github.com/lash-go/lash/session/search"
	"github.com/lash-go/lash/session/transcript"
)

type searchCmd struct {
	Text    []string          `arg:"" optional:"" help:"Texts that all occur in one turn, each as a whole, without regard to case."`
	Tool    string            `placeholder:"NAME" help:"A turn that called this tool."`
	Actor   string            `placeholder:"NAME" help:"A turn with a request, an answer or another commit of this actor: client:alice, or alice."`
	Outcome string            `placeholder:"OUTCOME" help:"A turn, or a call in it, with this outcome: finished, cancelled, failure, lost, granted, refused, ..."`
	Since   program.Point     `placeholder:"TIME" help:"Events at or after a time: 2026-11-25T18:30:00Z, or 24h for the last day."`
	Until   program.Point     `placeholder:"TIME" help:"Events before or at a time."`
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

// found is the output of search with --json, as eventjson writes it.
type found struct {
	Sessions  []api.FoundSession
	Searched  int            // sessions
	Opened    int            // sessions that were read
	Unindexed int            // sessions without an index row
	More      bool           // the limit was reached: more may match
	Failed    []failedSearch // sessions that cannot be read; they may match
}

type failedSearch struct {
	Session events.SessionID
	Error   string
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
		err = e.writeJSON(eventjson.Value{V: out})
	} else {
		out.print(e)
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
		at   program.Point
		into *events.Millis
	}{{"--since", c.Since, &q.Since}, {"--until", c.Until, &q.Until}} {
		if t.at == "" {
			continue
		}
		at, ok := t.at.Time(e.now())
		if !ok {
			return q, fmt.Errorf("%s %q: want a time such as 2026-11-25T18:30:00Z, or a duration such as 24h", t.flag, t.at)
		}
		*t.into = at
	}
	switch {
	case slices.Contains(q.Texts, ""):
		err = errors.New("an empty text occurs everywhere: leave it out")
	case q.IsZero():
		err = errors.New("search for what? give a text, --tool, --actor, --outcome, --since, --until or --label")
	case c.Limit < 1 || c.Matches < 1:
		err = errors.New("--limit and --matches are at least 1")
	}
	return q, err
}

// search searches the sessions of a source.
func search(ctx context.Context, src source, q index.Query, limit, perSession int) (*found, error) {
	byLastCommit := func(ctx context.Context) (map[events.SessionID]events.Millis, error) {
		ids, err := src.Names(ctx)
		names := make(map[events.SessionID]events.Millis, len(ids))
		for _, id := range ids {
			names[id] = 0
		}
		return names, err
	}
	got, err := textsearch.Run(ctx, src, textsearch.Request{Query: q, Sessions: limit, Matches: perSession, Names: byLastCommit})
	if err != nil {
		return nil, err
	}
	out := &found{Sessions: []api.FoundSession{}, Searched: got.Searched, Opened: got.Opened, Unindexed: got.Unindexed, More: got.More}
	for _, f := range got.Failed {
		out.Failed = append(out.Failed, failedSearch{f.Session, f.Err.Error()})
	}
	for i := range got.Sessions {
		s := &got.Sessions[i]
		one := api.FoundSession{ID: s.Row.Session, UpdatedAt: s.Row.At, Model: s.Row.Model, Labels: s.Row.Labels}
		for j := range s.Matches {
			one.Matches = append(one.Matches, s.Matches[j].Match)
		}
		out.Sessions = append(out.Sessions, one)
	}
	return out, nil
}

func (f *found) print(e *env) {
	for i := range f.Sessions {
		s := &f.Sessions[i]
		e.println(s.ID, "", eventjson.Clock(s.UpdatedAt), s.Model, eventjson.Value{V: s.Labels})
		for j := range s.Matches {
			m := &s.Matches[j]
			e.printf("  %-7s %s %s %s  %s\n", fmt.Sprintf("%d.%d", m.Seq, m.Pos), cmp.Or(string(m.Turn), "-"), m.Kind, transcript.VisibleLine(m.Actor), transcript.VisibleLine(m.Text))
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
