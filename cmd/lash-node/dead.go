package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
)

type deadCmd struct {
	Ls    deadLsCmd    `cmd:"" help:"List them, oldest first."`
	Show  deadShowCmd  `cmd:"" help:"Show one, with the command."`
	Retry deadRetryCmd `cmd:"" help:"Put the command back in the queue, once what was wrong with it is mended, and forget the letter."`
	Drop  deadDropCmd  `cmd:"" help:"Forget one."`
}

// Help implements [kong.HelpProvider].
func (*deadCmd) Help() string {
	return "A dead letter is a command that no node tries again by itself: its attempts came to nothing too often (poisoned), nobody can read it " +
		"(unreadable), or there is no such session (no_session). Where the history could take it, the turn or task has ended there with the reason. " +
		"Letters are kept for 30 days.\n\nExit codes: 0 done, 1 there is no such letter, 2 it could not be done."
}

// errNoLetter makes the exit code 1.
var errNoLetter = errors.New("there is no such dead letter: lash-node dead ls lists them")

type deadLsCmd struct {
	clientFlags
	JSON bool `name:"json" help:"An array of objects."`
}

func (c *deadLsCmd) Run(ctx context.Context, s *streams) error {
	on, err := c.open(ctx, s)
	if err != nil {
		return err
	}
	defer on.bus.Close()
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
		write(s.out, "no dead letters\n")
	}
	for i := range list {
		l := &list[i]
		write(s.out, "%s %s %s  %s after %d attempts, %s\n", l.Class, l.Session, l.ID, l.Reason, l.Attempts, l.At.Time().Format("2006-01-02 15:04:05Z"))
		if l.Error != "" {
			write(s.out, "  %s\n", printable(clipped(l.Error)))
		}
	}
	return nil
}

// letterArgs name a dead letter.
type letterArgs struct {
	Session events.SessionID `arg:"" help:"The session."`
	ID      string           `arg:"" help:"The command's id; of a turn the turn's."`
	Class   bus.Class        `help:"turn or task." enum:"turn,task" default:"turn"`
	clientFlags
}

// find opens a client and the letter.
func (a *letterArgs) find(ctx context.Context, s *streams) (*client, *bus.DeadLetter, error) {
	on, err := a.open(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	letter, err := on.bus.DeadLetter(ctx, a.Class, a.Session, a.ID)
	if err != nil {
		on.bus.Close()
		if errors.Is(err, bus.ErrNotFound) {
			err = errNoLetter
		}
		return nil, nil, err
	}
	return on, &letter, nil
}

type deadShowCmd struct {
	letterArgs
	JSON bool `name:"json" help:"Print one JSON object; the command is its body, base64."`
}

func (c *deadShowCmd) Run(ctx context.Context, s *streams) error {
	on, letter, err := c.find(ctx, s)
	if err != nil {
		return err
	}
	defer on.bus.Close()
	if c.JSON {
		return writeJSON(s, letter)
	}
	write(s.out, "%s %s %s\n", letter.Class, letter.Session, letter.ID)
	write(s.out, "  reason   %s after %d attempts\n", letter.Reason, letter.Attempts)
	if letter.Error != "" {
		write(s.out, "  error    %s\n", printable(clipped(letter.Error)))
	}
	write(s.out, "  at       %s, worker %s\n", letter.At.Time().Format("2006-01-02 15:04:05Z"), letter.Worker)
	write(s.out, "  history  %s\n", map[bool]string{true: "has its end", false: "says nothing of it"}[letter.Ended])
	write(s.out, "  command  %s\n", printable(clipped(commandText(letter))))
	return nil
}

// commandText says what a command asks for.
func commandText(letter *bus.DeadLetter) string {
	if letter.Class == bus.ClassTask {
		if job, err := session.DecodeTaskJob(letter.Body); err == nil {
			return "run task " + string(job.Task)
		}
		return fmt.Sprintf("%d bytes that nobody can read", len(letter.Body))
	}
	cmd, err := session.DecodeCommand(letter.Body)
	switch {
	case err != nil:
		return fmt.Sprintf("%d bytes that nobody can read", len(letter.Body))
	case !cmd.Answer.IsZero():
		return "answer for call " + string(cmd.Answer.Effect)
	case !cmd.Resolve.IsZero():
		return "result of call " + string(cmd.Resolve.Effect)
	case !cmd.Cancel.IsZero():
		return "cancel of turn " + string(cmd.Cancel.Turn)
	case cmd.Cover:
		return "what the session owes"
	case cmd.Wake:
		return "turn for inputs that wait"
	}
	var text strings.Builder
	for _, p := range cmd.Input.Parts {
		text.WriteString(p.Text)
	}
	return "turn: " + text.String()
}

type deadRetryCmd struct {
	letterArgs
	JSON bool `name:"json" help:"Print one JSON object."`
}

// Help implements [kong.HelpProvider].
func (*deadRetryCmd) Help() string {
	return "A turn that has ended in the history is asked for again under an id of its own, which is printed; one that never came there keeps its id. " +
		"A retry that is repeated makes one turn.\n\nExit codes: 0 it is in the queue, 1 there is no such letter, 2 it could not be done."
}

// retried is what became of a retry.
type retried struct {
	Class   bus.Class        `json:"class"`
	Session events.SessionID `json:"session"`
	ID      string           `json:"id"`
	Fresh   bool             `json:"fresh"`
}

func (c *deadRetryCmd) Run(ctx context.Context, s *streams) error {
	on, letter, err := c.find(ctx, s)
	if err != nil {
		return err
	}
	defer on.bus.Close()
	got, err := on.Retry(ctx, letter)
	if err != nil {
		return on.explain(err, c.Session)
	}
	switch {
	case c.JSON:
		return writeJSON(s, retried{Class: c.Class, Session: c.Session, ID: got.ID, Fresh: got.Fresh})
	case got.Fresh:
		write(s.out, "queued: %s %s of session %s, as %s has ended\n", c.Class, got.ID, c.Session, c.ID)
	default:
		write(s.out, "queued: %s %s of session %s\n", c.Class, got.ID, c.Session)
	}
	return nil
}

type deadDropCmd struct {
	letterArgs
	JSON bool `name:"json" help:"Print one JSON object."`
}

// dropped is the letter that is forgotten.
type dropped struct {
	Class   bus.Class        `json:"class"`
	Session events.SessionID `json:"session"`
	ID      string           `json:"id"`
}

func (c *deadDropCmd) Run(ctx context.Context, s *streams) error {
	on, letter, err := c.find(ctx, s)
	if err != nil {
		return err
	}
	defer on.bus.Close()
	if err := on.bus.DropDead(ctx, letter); err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s, dropped{Class: letter.Class, Session: letter.Session, ID: letter.ID})
	}
	write(s.out, "dropped: %s %s of session %s\n", letter.Class, letter.ID, letter.Session)
	return nil
}
