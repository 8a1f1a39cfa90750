package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/decision"
)

type checkCmd struct {
	Targets []string `arg:"" optional:"" name:"session" help:"Sessions; archive files or folders of them (*.lash) when no source is given. Default: every session of the source."`
	JUnit   string   `name:"junit" placeholder:"FILE" help:"Also write the results to this file, as JUnit's XML: one test case a session."`
	JSON    bool     `name:"json" help:"Print one JSON object."`
}

// Help is shown by --help.
func (*checkCmd) Help() string {
	return `Decides every step of recorded turns again, with the turn machine of this build, from the recorded inputs: requests,
replies, results, the decisions of hooks, ids and times. Nothing is executed. What this build decides must equal what is
recorded. The first difference of each session is shown with both sides.

Run it before a new version is deployed, over a folder of archives that lash-replay export wrote: a difference means that the
new version continues such sessions in another way, which a session that runs meanwhile may not survive.

Not compared: what effects return, what hosts request, and a redacted history from its first redacted payload on. The documentation of package session/decision lists decisions and
inputs.`
}

// checked is the result of one session.
type checked struct {
	Session    events.SessionID `json:"session,omitempty"`
	File       string           `json:"file,omitempty"`
	Commits    int64            `json:"commits"` // with decisions
	Steps      int64            `json:"steps"`
	Decisions  int64            `json:"decisions"`
	Difference *difference      `json:"difference,omitempty"`
	Redacted   events.Seq       `json:"redacted,omitempty"` // first commit with a redacted payload: nothing is compared from there on
	Problem    string           `json:"problem,omitempty"`  // why it could not be checked to its end
}

// difference is a [decision.Difference] for people.
type difference struct {
	Event    events.EventID `json:"event"`
	Seq      events.Seq     `json:"seq"`
	Index    int            `json:"index"` // in the commit
	Turn     events.TurnID  `json:"turn,omitempty"`
	Input    string         `json:"input,omitempty"`
	Recorded *side          `json:"recorded,omitempty"`
	Decided  *side          `json:"decided,omitempty"`
	Problem  string         `json:"problem,omitempty"`
}

// side is one side of a difference.
type side struct {
	Kind    events.Kind     `json:"kind"`
	Turn    events.TurnID   `json:"turn,omitempty"`
	Payload eventjson.Value `json:"payload"`
}

// checkReport is the output of check.
type checkReport struct {
	Sessions    int        `json:"sessions"`
	Differences int        `json:"differences"`
	Problems    int        `json:"problems"`
	Steps       int64      `json:"steps"`
	Decisions   int64      `json:"decisions"`
	Results     []*checked `json:"results"`
}

// Run checks the sessions and prints each result when it is there.
func (c *checkCmd) Run(ctx context.Context, e *env) error {
	r := &checkReport{Results: []*checked{}}
	if err := c.checkAll(ctx, e, r); err != nil {
		return err
	}
	if c.JUnit != "" {
		if err := writeJUnit(c.JUnit, r); err != nil {
			return err
		}
	}
	if c.JSON {
		if err := e.writeJSON(r); err != nil {
			return err
		}
	} else {
		e.printf("checked %s: %s of %s compared, %s\n", number(int64(r.Sessions), "session"), number(r.Decisions, "decision"),
			number(r.Steps, "step"), number(int64(r.Differences), "difference"))
	}
	if r.Differences+r.Problems > 0 {
		return errViolations
	}
	return nil
}

func (c *checkCmd) checkAll(ctx context.Context, e *env, r *checkReport) error {
	p := &progress{w: e.Err, now: e.now, began: e.now()}
	files, err := program.Archives(c.Targets)
	if err != nil {
		return err
	}
	e.source.defaults(c.Targets...)
	if e.source.count() == 0 && len(files) > 0 {
		for _, file := range files {
			one := &checked{File: file}
			err := e.each(ctx, []string{file}, func(src source, id events.SessionID) error {
				one.Session = id
				return one.run(ctx, src, p)
			})
			if err = c.finish(e, r, one, err); err != nil {
				return err
			}
		}
		return nil
	}
	return e.each(ctx, c.Targets, func(src source, id events.SessionID) error {
		one := &checked{Session: id}
		return c.finish(e, r, one, one.run(ctx, src, p))
	})
}

// finish adds a result and prints it. A history that is damaged is a result too, so that it does not hide others.
func (c *checkCmd) finish(e *env, r *checkReport, one *checked, err error) error {
	if err != nil {
		if !errors.Is(err, errDamaged) && !isDamage(err) && !errors.Is(err, events.ErrFutureVersion) && !errors.Is(err, projector.ErrPartial) {
			return err
		}
		one.Problem = err.Error()
		r.Problems++
	}
	r.Sessions++
	r.Steps += one.Steps
	r.Decisions += one.Decisions
	if one.Difference != nil {
		r.Differences++
	}
	r.Results = append(r.Results, one)
	if !c.JSON {
		e.printf("%s", one.text())
	}
	return nil
}

// run decides the steps of a session again, up to the first difference.
func (c *checked) run(ctx context.Context, src source, p *progress) error {
	last, err := src.Log().Last(ctx, c.Session)
	if err != nil {
		return err
	}
	s := projector.New(c.Session)
	for entry, err := range src.Log().Read(ctx, c.Session, 1) {
		if err == nil {
			err = follow.Prepare(ctx, src, s, entry.Commit)
		}
		if err != nil {
			return err
		}
		if slices.ContainsFunc(entry.Commit.Events, func(ev events.Event) bool { return ev.Redacted != nil }) {
			c.Redacted = entry.Seq
			return nil
		}
		n, diff, err := decision.Compare(s, entry)
		if err != nil {
			return fmt.Errorf("check %s at sequence %d: %w", c.Session, entry.Seq, err)
		}
		c.Commits, c.Steps, c.Decisions = c.Commits+n.Commits, c.Steps+n.Steps, c.Decisions+n.Decisions
		if diff != nil {
			c.Difference = differenceOf(diff)
			return nil
		}
		if err := s.Apply(entry); err != nil {
			return fmt.Errorf("%w: %w", errDamaged, err)
		}
		if entry.Seq == 1 {
			if err := follow.Complete(ctx, src, s); err != nil {
				return err
			}
		}
		p.print(c.Session, entry.Seq, last)
	}
	return nil
}

func differenceOf(d *decision.Difference) *difference {
	side := func(ev *events.Event) *side {
		if ev == nil {
			return nil
		}
		return &side{Kind: ev.Kind, Turn: ev.Turn, Payload: eventjson.Value{V: ev.Payload}}
	}
	return &difference{
		Event: d.ID, Seq: d.Seq, Index: d.Event, Turn: d.Turn, Input: d.Input,
		Recorded: side(d.Recorded), Decided: side(d.Decided), Problem: d.Problem,
	}
}

// text is the result as lines.
func (c *checked) text() string {
	name := string(c.Session)
	if c.File != "" {
		name = c.File
	}
	switch {
	case c.Problem != "":
		return fmt.Sprintf("%s: cannot be checked: %s\n", name, c.Problem)
	case c.Difference == nil && c.Redacted > 0:
		return fmt.Sprintf("%s: same, %s; nothing is compared from sequence %d on, where payloads are redacted\n", name, number(c.Decisions, "decision"), c.Redacted)
	case c.Difference == nil:
		return fmt.Sprintf("%s: same, %s\n", name, number(c.Decisions, "decision"))
	}
	return fmt.Sprintf("%s: different\n%s", name, c.Difference.text())
}

// text has both sides, one below the other.
func (d *difference) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  event %s, sequence %d.%d, turn %s", d.Event, d.Seq, d.Index, d.Turn)
	if d.Input != "" {
		fmt.Fprintf(&b, ", after the input: %s", d.Input)
	}
	fmt.Fprintf(&b, "\n  recorded      %s\n  this program  %s\n", d.Recorded.text("no further event"), d.Decided.text("no such event"))
	if d.Problem != "" {
		fmt.Fprintf(&b, "  why           %s\n", d.Problem)
	}
	return b.String()
}

// maxSideBytes limits one side on a terminal. --json has all of it.
const maxSideBytes = 2000

func (s *side) text(none string) string {
	if s == nil {
		return none
	}
	return string(s.Kind) + " " + events.Clip(s.Payload.String(), maxSideBytes, "… (--json has all of it)")
}
