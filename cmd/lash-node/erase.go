package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/transcript"
)

type eraseCmd struct {
	Session events.SessionID `arg:"" help:"The session to erase."`
	personFlags

	Reason string `required:"" help:"Why; it is all that is kept, with when and who." placeholder:"TEXT"`
	Yes    bool   `help:"Do it. Without this nothing is done."`
	JSON   bool   `name:"json" help:"Print one JSON object."`
}

func (*eraseCmd) Help() string {
	return "Removes the history, archives, snapshots, wake and timer of a session, whatever runs in it. It cannot be undone, and its id stays taken.\n\n  lash-node erase SESSION --reason TEXT --yes"
}

// erased is the tombstone of a session.
type erased struct {
	Session events.SessionID `json:"session"`
	At      events.Millis    `json:"at"`
	By      string           `json:"by"`
	Reason  string           `json:"reason"`
	Seq     events.Seq       `json:"seq"` // last sequence of the erased history
}

func (c *eraseCmd) Run(ctx context.Context, s *streams) error {
	if !c.Yes {
		return fmt.Errorf("erase %s: it cannot be undone, --yes does it", c.Session)
	}
	if c.Reason == "" {
		return errors.New("--reason: say why")
	}
	return c.with(ctx, s, func(ctx context.Context, on *client) error { return c.erase(ctx, s, on) })
}

func (c *eraseCmd) erase(ctx context.Context, s *streams, on *client) error {
	t, err := on.Erase(ctx, c.Session, c.Reason)
	if err != nil {
		return on.explain(err, c.Session)
	}
	if c.JSON {
		return writeJSON(s, erased{Session: c.Session, At: t.At, By: t.By, Reason: t.Reason, Seq: t.Last})
	}
	write(s.Out, "erased: session %s at sequence %d (%s, %s: %s)\n", c.Session, t.Last, t.At.Time().Format("2006-01-02 15:04:05"), transcript.VisibleLine(t.By), transcript.VisibleLine(t.Reason))
	return nil
}
