// Package recheck compares recorded sessions with what this program decides on their inputs, and reports the result for
// people, as JSON, and as the XML of JUnit.
package recheck

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lash-go/lash/cmd/internal/program"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/decision"
)

// Questions is the part of a help text that tells the commands which check something apart.
const Questions = `Which command answers which question:

  check         does this build decide recorded turns as they were decided?
  rerun         what changes with another model, instructions or plugins?
  verify        is the stored history whole, consistent and as signed?
  plugin check  does a program keep to the protocol of plugins?

lash-replay check runs the turn machine, lash-node check the hooks of plugins too. verify is of lash-replay, rerun and
plugin check are of lash-node.
`

// ErrDamaged reports a history that does not verify.
var ErrDamaged = errors.New("the history is damaged")

// Session is the result of one session.
type Session struct {
	ID         events.SessionID `json:"session,omitempty"`
	File       string           `json:"file,omitempty"`
	Commits    int64            `json:"commits"` // with decisions
	Steps      int64            `json:"steps"`
	Decisions  int64            `json:"decisions"`
	Hooks      int64            `json:"hooks,omitempty"` // points whose hooks ran again
	Difference *Difference      `json:"difference,omitempty"`
	Redacted   events.Seq       `json:"redacted,omitempty"` // first commit with a redacted payload: nothing is compared from there on
	RedactedAt events.EventID   `json:"redacted_event,omitempty"`
	Absent     events.Kind      `json:"redacted_kind,omitempty"` // of that event
	Problem    string           `json:"problem,omitempty"`       // why it could not be checked to its end
}

// Difference is a [decision.Difference] for people.
type Difference struct {
	Event    events.EventID `json:"event"`
	Seq      events.Seq     `json:"seq"`
	Index    int            `json:"index"` // in the commit
	Turn     events.TurnID  `json:"turn,omitempty"`
	Input    string         `json:"input,omitempty"`
	Recorded *Side          `json:"recorded,omitempty"`
	Decided  *Side          `json:"decided,omitempty"`
	Problem  string         `json:"problem,omitempty"`
}

// Side is one side of a difference.
type Side struct {
	Kind    events.Kind     `json:"kind"`
	Turn    events.TurnID   `json:"turn,omitempty"`
	Payload eventjson.Value `json:"payload"`
}

// Report is the result of a check, and its output as JSON.
type Report struct {
	Sessions    int   `json:"sessions"`
	Differences int   `json:"differences"`
	Problems    int   `json:"problems"`
	Steps       int64 `json:"steps"`
	Decisions   int64 `json:"decisions"`
	Hooks       int64 `json:"hooks,omitempty"`
	Redacted    int   `json:"redacted,omitempty"` // sessions that are compared up to a redacted payload

	Whole bool `json:"-"` // a session that is compared in part only has a problem

	Skipped map[string]int64 `json:"hooks_not_compared,omitempty"` // points whose hooks did not run again, by reason

	Results []*Session `json:"results"`
}

// Add adds the result of a session.
func (r *Report) Add(one *Session) {
	r.Sessions++
	if one.Redacted > 0 && one.Difference == nil && one.Problem == "" {
		r.Redacted++
		if r.Whole {
			one.Problem = one.partly()
		}
	}
	if one.Problem != "" {
		r.Problems++
	}
	r.Steps, r.Decisions, r.Hooks = r.Steps+one.Steps, r.Decisions+one.Decisions, r.Hooks+one.Hooks
	if one.Difference != nil {
		r.Differences++
	}
	r.Results = append(r.Results, one)
}

// Text has why hooks did not run again, and the last line.
func (r *Report) Text() string {
	var b strings.Builder
	for _, why := range slices.Sorted(maps.Keys(r.Skipped)) {
		fmt.Fprintf(&b, "hooks at %s not compared: %s\n", program.Number(r.Skipped[why], "point"), why)
	}
	hooks := ""
	if r.Hooks > 0 {
		hooks = ", hooks ran again at " + program.Number(r.Hooks, "point")
	}
	redacted := ""
	if r.Redacted > 0 {
		redacted = ", " + program.Number(int64(r.Redacted), "session") + " up to what is redacted"
	}
	fmt.Fprintf(&b, "checked %s: %s of %s compared%s, %s%s\n", program.Number(int64(r.Sessions), "session"), program.Number(r.Decisions, "decision"),
		program.Number(r.Steps, "step"), hooks, program.Number(int64(r.Differences), "difference"), redacted)
	return b.String()
}

// Run decides the steps of a session again, up to the first difference. hooks runs those of the program; nil takes the recorded
// decisions.
func (c *Session) Run(ctx context.Context, log events.Log, blobs follow.BlobReader, hooks decision.Hooks) error {
	if _, err := log.Last(ctx, c.ID); err != nil {
		return err
	}
	s := projector.New(c.ID)
	for entry, err := range log.Read(ctx, c.ID, 1) {
		if err == nil {
			err = follow.Prepare(ctx, blobs, s, entry.Commit)
		}
		if err != nil {
			return err
		}
		if c.findRedacted(entry) {
			return nil
		}
		if done, err := c.compare(ctx, s, entry, hooks); done || err != nil {
			return err
		}
		if entry.Seq == 1 {
			if err := follow.Complete(ctx, blobs, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// findRedacted notes the first event of a commit whose payload is redacted.
func (c *Session) findRedacted(e events.Entry) bool {
	i := slices.IndexFunc(e.Commit.Events, func(ev events.Event) bool { return ev.Redacted != nil })
	if i >= 0 {
		c.Redacted, c.RedactedAt, c.Absent = e.Seq, e.Commit.EventID(i), e.Commit.Events[i].Kind
	}
	return i >= 0
}

// BeforeRedacted is the part of a session's archive that has all payloads, without any commit where its first one lacks one. The session gets the
// place of the first missing payload.
func (c *Session) BeforeRedacted(ctx context.Context, a *events.Archive) (*events.Archive, error) {
	for e, err := range a.Log.Read(ctx, a.Session, a.First) {
		if err != nil {
			return nil, err
		}
		if c.findRedacted(e) {
			return a.Before(e.Seq), nil
		}
	}
	return a, nil
}

// partly says up to where the session is compared.
func (c *Session) partly() string {
	return fmt.Sprintf("nothing is compared from sequence %d on, where the payload of event %s (%s) is redacted", c.Redacted, c.RedactedAt, c.Absent)
}

// compare compares one commit, and folds it. done: it has a difference.
func (c *Session) compare(ctx context.Context, s *projector.State, entry events.Entry, hooks decision.Hooks) (done bool, err error) {
	n, diff, err := hooks.Compare(ctx, s, entry)
	if err != nil {
		return false, fmt.Errorf("check %s at sequence %d: %w", c.ID, entry.Seq, err)
	}
	c.Commits, c.Steps, c.Decisions, c.Hooks = c.Commits+n.Commits, c.Steps+n.Steps, c.Decisions+n.Decisions, c.Hooks+n.Hooks
	if diff != nil {
		c.Difference = differenceOf(diff)
		return true, nil
	}
	if err := s.Apply(entry); err != nil {
		return false, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return false, nil
}

func differenceOf(d *decision.Difference) *Difference {
	side := func(ev *events.Event) *Side {
		if ev == nil {
			return nil
		}
		return &Side{Kind: ev.Kind, Turn: ev.Turn, Payload: eventjson.Value{V: ev.Payload}}
	}
	return &Difference{
		Event: d.ID, Seq: d.Seq, Index: d.Event, Turn: d.Turn, Input: d.Input,
		Recorded: side(d.Recorded), Decided: side(d.Decided), Problem: d.Problem,
	}
}

// Text is the result as lines.
func (c *Session) Text() string {
	name := string(c.ID)
	if c.File != "" {
		name = c.File
	}
	switch {
	case c.Problem != "":
		return fmt.Sprintf("%s: cannot be checked: %s\n", name, c.Problem)
	case c.Difference == nil && c.Redacted > 0:
		return fmt.Sprintf("%s: same, %s; %s\n", name, program.Number(c.Decisions, "decision"), c.partly())
	case c.Difference == nil:
		return fmt.Sprintf("%s: same, %s\n", name, program.Number(c.Decisions, "decision"))
	}
	return fmt.Sprintf("%s: different\n%s", name, c.Difference.text())
}

// text has both sides, one below the other.
func (d *Difference) text() string {
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

func (s *Side) text(none string) string {
	if s == nil {
		return none
	}
	return string(s.Kind) + " " + events.Clip(s.Payload.String(), maxSideBytes, "… (--json has all of it)")
}
