package main

import (
	"context"
	"errors"
	"slices"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/transcript"
)

type deadCmd struct {
	Ls    deadLsCmd    `cmd:"" help:"List dead letters, oldest first."`
	Show  deadShowCmd  `cmd:"" help:"Show a dead letter."`
	Retry deadRetryCmd `cmd:"" help:"Have nodes read the session again, and remove its dead letter. First repair what the letter names."`
	Drop  deadDropCmd  `cmd:"" help:"Remove a dead letter."`
}

func (*deadCmd) Help() string {
	return "A dead letter is a session that no node can fold: its history cannot be read, or reading it killed each node that tried. " +
		"Everything else that fails ends in the session's history, with the reason: lash-replay show tells it. " +
		"Letters are kept for 30 days.\n\nExit codes: 0 done, 1 there is no such letter, 2 it could not be done."
}

var errNoLetter = program.Difference("there is no such dead letter: lash-node dead ls lists them")

type deadLsCmd struct {
	clientFlags
	JSON bool `name:"json" help:"An array of objects."`
}

func (c *deadLsCmd) Run(ctx context.Context, s *streams) error {
	return c.with(ctx, s, func(ctx context.Context, on *client) error { return c.list(ctx, s, on) })
}

func (c *deadLsCmd) list(ctx context.Context, s *streams, on *client) error {
	list := []bus.DeadLetter{}
	for letter, err := range on.bus.DeadLetters(ctx) {
		if err != nil {
			return err
		}
		list = append(list, letter)
	}
	slices.SortFunc(list, func(a, b bus.DeadLetter) int { return int(a.Seq) - int(b.Seq) }) //nolint:gosec // counts of messages
	if c.JSON {
		return writeJSON(s, list)
	}
	if len(list) == 0 {
		write(s.Out, "no dead letters\n")
	}
	for i := range list {
		l := &list[i]
		write(s.Out, "%s  after %d attempts, %s\n", l.Session, l.Attempts, l.At.Time().Format("2006-01-02 15:04:05Z"))
		if l.Error != "" {
			write(s.Out, "  %s\n", transcript.VisibleLine(clipped(l.Error)))
		}
	}
	return nil
}

// letterArgs name a dead letter.
type letterArgs struct {
	Session events.SessionID `arg:"" help:"The session."`
	clientFlags
}

// find connects and calls do with the letter.
func (a *letterArgs) find(ctx context.Context, s *streams, do func(context.Context, *client, *bus.DeadLetter) error) error {
	return a.with(ctx, s, func(ctx context.Context, on *client) error {
		letter, err := on.bus.DeadLetter(ctx, a.Session)
		switch {
		case errors.Is(err, bus.ErrNotFound):
			return errNoLetter
		case err != nil:
			return err
		}
		return do(ctx, on, &letter)
	})
}

type deadShowCmd struct {
	letterArgs
	JSON bool `name:"json" help:"Print one JSON object."`
}

func (c *deadShowCmd) Run(ctx context.Context, s *streams) error {
	return c.find(ctx, s, func(_ context.Context, _ *client, letter *bus.DeadLetter) error { return c.show(s, letter) })
}

func (c *deadShowCmd) show(s *streams, letter *bus.DeadLetter) error {
	if c.JSON {
		return writeJSON(s, letter)
	}
	write(s.Out, "%s after %d attempts\n", letter.Session, letter.Attempts)
	if letter.Error != "" {
		write(s.Out, "  error    %s\n", transcript.VisibleLine(clipped(letter.Error)))
	}
	write(s.Out, "  at       %s, worker %s\n", letter.At.Time().Format("2006-01-02 15:04:05Z"), letter.Worker)
	return nil
}

type deadRetryCmd struct {
	letterArgs
	JSON bool `name:"json" help:"Print one JSON object."`
}

func (c *deadRetryCmd) Run(ctx context.Context, s *streams) error {
	return c.find(ctx, s, func(ctx context.Context, on *client, letter *bus.DeadLetter) error {
		return c.retry(ctx, s, on, letter)
	})
}

func (c *deadRetryCmd) retry(ctx context.Context, s *streams, on *client, letter *bus.DeadLetter) error {
	if err := on.RetryDeadLetter(ctx, letter); err != nil {
		return on.explain(err, c.Session)
	}
	if c.JSON {
		return writeJSON(s, letterName{c.Session})
	}
	write(s.Out, "woken: session %s\n", c.Session)
	return nil
}

type deadDropCmd struct {
	letterArgs
	JSON bool `name:"json" help:"Print one JSON object."`
}

// letterName names the letter that a command retried or dropped.
type letterName struct {
	Session events.SessionID `json:"session"`
}

func (c *deadDropCmd) Run(ctx context.Context, s *streams) error {
	return c.find(ctx, s, func(ctx context.Context, on *client, letter *bus.DeadLetter) error { return c.drop(ctx, s, on, letter) })
}

func (c *deadDropCmd) drop(ctx context.Context, s *streams, on *client, letter *bus.DeadLetter) error {
	if err := on.bus.DropDeadLetter(ctx, letter); err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s, letterName{c.Session})
	}
	write(s.Out, "dropped: session %s\n", c.Session)
	return nil
}
