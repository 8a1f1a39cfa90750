package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/archive"
	"github.com/lash-go/lash/session/transcript"
)

type redactCmd struct {
	Session events.SessionID `arg:"" help:"The session to redact."`
	signingFlags

	Kind   []string `sep:"none" help:"Redact the events of this kind, or of a pattern of kinds such as tool.*. May be given several times." placeholder:"KIND"`
	Event  []string `sep:"none" help:"Redact this event; lash-replay events lists ids. May be given several times." placeholder:"ID"`
	Reason string   `required:"" help:"Why. It is kept with the archive." placeholder:"TEXT"`
	Close  bool     `help:"Close the session first, if it has the named events. Only a closed session is redacted."`
	Yes    bool     `help:"Do it. Without this the command lists what it would redact, and does nothing."`
	JSON   bool     `name:"json" help:"Print one JSON object."`
}

func (*redactCmd) Help() string {
	return `Replaces payloads in the stored history of a closed session by their digests, for good, and removes snapshots and rows
that have them. Every signed head stays valid: lash-replay verify. What, when, by whom and why stays with the archive, signed.
The session can be read, and not continued: lash-node fork at a sequence before the redacted events makes one that can.

Bodies outside the log that only these events name are removed by nodes within 24 hours. Copies, forks and children keep what
they began with, a node that read the session keeps it in memory until it restarts, and archives and backups that you made
are not changed.

  lash-node redact SESSION --kind tool.returned --event 01JD6Z0000000000000000000A.0 --reason TEXT --yes`
}

// redactedSession is the record of a redaction.
type redactedSession struct {
	Session events.SessionID `json:"session"`
	At      events.Millis    `json:"at"`
	By      string           `json:"by"`
	Reason  string           `json:"reason"`
	What    []string         `json:"what"`
	Events  int64            `json:"events"`         // number of payloads
	Note    string           `json:"note,omitempty"` // the signed record

	Guessable *archive.Remains `json:"guessable,omitempty"` // what stays that guesses can be tested with
}

func (c *redactCmd) Run(ctx context.Context, s *streams) error {
	what := append(append([]string(nil), c.Kind...), c.Event...)
	switch {
	case len(what) == 0:
		return errors.New("what? --kind KIND or --event ID, as lash-replay events lists them")
	case c.Reason == "":
		return errors.New("--reason: say why")
	case !c.Yes:
		return c.with(ctx, s, func(ctx context.Context, on *client) error { return c.list(ctx, s, on, what) })
	}
	if err := c.sign(s); err != nil {
		return err
	}
	return c.with(ctx, s, func(ctx context.Context, on *client) error { return c.redact(ctx, s, on, what) })
}

// redactableEvent is an event that the command would redact.
type redactableEvent struct {
	Seq  events.Seq     `json:"seq"`
	ID   events.EventID `json:"id"`
	Kind events.Kind    `json:"kind"`
}

// list prints what the command would redact.
func (c *redactCmd) list(ctx context.Context, s *streams, on *client, what []string) error {
	found, err := archive.Named(ctx, on.bus.Log(), c.Session, what)
	if err != nil {
		return c.explainNamed(on, err)
	}
	out := struct {
		Session events.SessionID  `json:"session"`
		Events  []redactableEvent `json:"would_redact"`
	}{c.Session, make([]redactableEvent, len(found))}
	for i, e := range found {
		out.Events[i] = redactableEvent(e)
		if !c.JSON {
			write(s.Out, "%d  %s  %s\n", e.Seq, e.ID, e.Kind)
		}
	}
	if c.JSON {
		if err := writeJSON(s, out); err != nil {
			return err
		}
	}
	return program.Unconfirmed("redacts %s of session %s", program.Number(int64(len(found)), "event"), c.Session)
}

func (c *redactCmd) redact(ctx context.Context, s *streams, on *client, what []string) error {
	if c.Close { // which cannot be undone: a misspelled name ends the command before
		if _, err := archive.Named(ctx, on.bus.Log(), c.Session, what); err != nil {
			return c.explainNamed(on, err)
		}
		if err := on.CloseSession(ctx, c.Session, c.Reason); err != nil {
			return on.explain(err, c.Session)
		}
	}
	over := s.NoteWait("the archive of %s to be written again", c.Session)
	r, err := on.Redact(ctx, c.Session, what, c.Reason)
	over()
	switch {
	case errors.Is(err, archive.ErrOpen) && !c.Close:
		return fmt.Errorf("%w: --close closes it", err)
	case err != nil:
		return c.explainNamed(on, err)
	}
	left, err := archive.RemainsOf(ctx, on.bus.Log(), c.Session)
	if err != nil {
		return on.explain(err, c.Session)
	}
	if c.JSON {
		return writeJSON(s, redactedSession{Session: c.Session, At: r.At, By: r.By, Reason: r.Reason, What: r.What, Events: r.Events, Note: r.Note, Guessable: left})
	}
	if left != nil {
		s.Printf("session %s: %s", c.Session, left)
	}
	write(s.Out, "redacted: %s of session %s (%s, %s: %s)\n", program.Number(r.Events, "event"), c.Session, r.At.Time().Format("2006-01-02 15:04:05"), transcript.VisibleLine(r.By), transcript.VisibleLine(r.Reason))
	return nil
}

// explainNamed adds advice to the refusal of names that no event has.
func (c *redactCmd) explainNamed(on *client, err error) error {
	if _, named := errors.AsType[*events.FieldError](err); named {
		return fmt.Errorf("%w: lash-replay events --json lists them", err)
	}
	return on.explain(err, c.Session)
}
