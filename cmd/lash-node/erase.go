package main

import (
	"context"
	"errors"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/transcript"
)

type eraseCmd struct {
	Session events.SessionID `arg:"" help:"The session to erase."`
	signingFlags

	Reason string `required:"" help:"Why. It is kept in the tombstone." placeholder:"TEXT"`
	Yes    bool   `help:"Do it. Without this nothing is done."`
	JSON   bool   `name:"json" help:"Print one JSON object."`
}

func (*eraseCmd) Help() string {
	return "Removes the history, archives, snapshots, wake and timer of a session, whatever runs in it. It cannot be undone, and its id stays taken. A signed tombstone stays: when, by whom and why, the number of its commits, their root, and the last signed head. lash-replay verify checks it.\n\n  lash-node erase SESSION --reason TEXT --yes"
}

// erased is the tombstone of a session.
type erased struct {
	Session events.SessionID `json:"session"`
	At      events.Millis    `json:"at"`
	By      string           `json:"by"`
	Reason  string           `json:"reason"`
	Seq     events.Seq       `json:"seq"`            // last sequence of the erased history
	Note    string           `json:"note,omitempty"` // the signed tombstone
}

func (c *eraseCmd) Run(ctx context.Context, s *streams) error {
	if !c.Yes {
		return program.Unconfirmed("erases session %s", c.Session)
	}
	if c.Reason == "" {
		return errors.New("--reason: say why")
	}
	if err := c.sign(s); err != nil {
		return err
	}
	return c.with(ctx, s, func(ctx context.Context, on *client) error { return c.erase(ctx, s, on) })
}

func (c *eraseCmd) erase(ctx context.Context, s *streams, on *client) error {
	t, err := on.Erase(ctx, c.Session, c.Reason)
	if err != nil {
		return on.explain(err, c.Session)
	}
	if c.JSON {
		return writeJSON(s, erased{Session: c.Session, At: t.At, By: t.By, Reason: t.Reason, Seq: t.Last, Note: t.Note})
	}
	write(s.Out, "erased: session %s at sequence %d (%s, %s: %s)\n", c.Session, t.Last, t.At.Time().Format("2006-01-02 15:04:05"), transcript.VisibleLine(t.By), transcript.VisibleLine(t.Reason))
	return nil
}
