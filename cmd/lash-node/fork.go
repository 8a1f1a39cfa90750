package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	sessionclient "github.com/lash-go/lash/session/client"
)

type forkCmd struct {
	Session events.SessionID `arg:"" help:"The session to fork."`
	personFlags

	At    program.Point     `placeholder:"SEQ|TIME|EVENT" help:"Fork it as it was at a sequence, an event (12.0, or its id) or a time (2026-11-25T18:30:00Z, or 15m for so long ago). Defaults to the end."`
	ID    events.SessionID  `name:"id" placeholder:"NEW" help:"Id of the new session. Defaults to a new one."`
	Label map[string]string `placeholder:"KEY=VALUE" help:"Label of the new session. Repeatable."`
	JSON  bool              `name:"json" help:"Print one JSON object."`
}

func (*forkCmd) Help() string {
	return `Makes a session that goes on from a point of another: it has that point's conversation, frames, configuration and restrictions. Plugin states,
usage and what tools did outside are not copied. The other session does not change. lash-replay events lists sequences and events.
A session that has lost its last commits is forked from what is left of it.

  lash-node fork SESSION --at 12
  lash-node chat --session NEW`
}

// forked is a session that was made from another.
type forked struct {
	Session events.SessionID `json:"session"`
	From    events.SessionID `json:"from"`
	Seq     events.Seq       `json:"seq"` // of the other session
	Leaf    events.NodeID    `json:"leaf"`
}

func (c *forkCmd) Run(ctx context.Context, s *streams) error {
	c.role = connect.Host
	return c.with(ctx, s, func(ctx context.Context, on *client) error { return c.fork(ctx, s, on) })
}

// fork requests the fork of a node. It reads the new session, because a node of an earlier version forks the end.
func (c *forkCmd) fork(ctx context.Context, s *streams, on *client) error {
	if err := on.bus.Recreate(ctx, c.Session); err != nil {
		return err
	}
	log := on.bus.Log().Remaining()
	if _, err := log.Last(ctx, c.Session); err != nil {
		return on.explain(err, c.Session)
	}
	if c.ID != "" {
		if err := events.CheckToken("id", c.ID); err != nil {
			return fmt.Errorf("--id %q: %w", c.ID, err)
		}
	}
	seq, err := c.At.Seq(ctx, log, c.Session, "--at", on.bus.Now())
	if err != nil {
		return err
	}
	cl, err := sessionclient.New(sessionclient.Config{Bus: on.bus, Actor: c.actor})
	if err != nil {
		return err
	}
	over := s.NoteWait("a node at %s", bus.WithoutPasswords(c.where()))
	id, err := cl.Fork(ctx, c.Session, api.CreateRequest{ID: c.ID, At: seq, Labels: c.Label})
	over()
	if errors.Is(err, api.ErrExists) {
		return fmt.Errorf("%w: --id takes another one", err)
	}
	if err != nil {
		return c.Explain(err, connect.Host, "")
	}
	made, err := cl.State(ctx, id)
	if err != nil {
		return on.explain(err, id)
	}
	if made.Forked.Seq != seq {
		return fmt.Errorf("session %s was made, from sequence %d and not %d: a node of an earlier version answered; upgrade all nodes", id, made.Forked.Seq, seq)
	}
	out := forked{Session: id, From: c.Session, Seq: seq, Leaf: made.Forked.Leaf}
	if c.JSON {
		return writeJSON(s, out)
	}
	write(s.Out, "forked: session %s from %s at sequence %d\nlash-node chat%s --session %s goes on with it\n", id, c.Session, seq, on.where, id)
	return nil
}
