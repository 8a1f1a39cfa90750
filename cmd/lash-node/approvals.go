package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/session/transcript"
)

type approvalsCmd struct {
	Session events.SessionID `arg:"" optional:"" help:"Of this session and its agents only. Defaults to all."`
	clientFlags

	Wait time.Duration `help:"Wait this long for a question, and for the node to come up." placeholder:"TIME"`
	JSON bool          `name:"json" help:"An array of objects, with the whole arguments."`
}

func (*approvalsCmd) Help() string {
	return "Exit codes: 0 listed, 1 nothing was asked within --wait, 2 it could not be done."
}

// waiting is a call that waits for an approval.
type waiting struct {
	Session  events.SessionID `json:"session"`
	Call     events.EffectID  `json:"call"`
	Tool     string           `json:"tool"`
	Args     json.RawMessage  `json:"args"`
	Plugin   string           `json:"plugin"` // that requests the approval
	Question string           `json:"question"`
}

var errNoApprovals = program.Difference("nothing was asked")

// pollEvery is the interval at which a waiting command polls.
const pollEvery = 100 * time.Millisecond

func (c *approvalsCmd) Run(ctx context.Context, s *streams) error {
	list, err := c.collect(ctx, s)
	deadline := time.Now().Add(c.Wait)
	over := s.NoteWait("a call that asks for an approval, %s in all", c.Wait)
	for len(list) == 0 && !connect.Final(err) && time.Now().Before(deadline) && delay.Sleep(ctx, pollEvery) {
		list, err = c.collect(ctx, s)
	}
	over()
	switch {
	case err != nil:
		return err
	case c.JSON:
		err = writeJSON(s, list)
	default:
		c.print(s, list)
	}
	if err == nil && c.Wait > 0 && len(list) == 0 {
		return errNoApprovals
	}
	return err
}

func writeJSON(s *streams, v any) error {
	enc := json.NewEncoder(s.Out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// collect opens a new connection each time: with --wait the node may not run yet.
func (c *approvalsCmd) collect(ctx context.Context, s *streams) (list []waiting, err error) {
	err = c.with(ctx, s, func(ctx context.Context, on *client) error {
		list, err = c.list(ctx, on)
		return err
	})
	return list, err
}

func (c *approvalsCmd) list(ctx context.Context, on *client) ([]waiting, error) {
	ids := []events.SessionID{c.Session}
	if c.Session == "" {
		ids = nil
		for id, err := range on.bus.Sessions(ctx) {
			if err != nil {
				return nil, err
			}
			ids = append(ids, id)
		}
		slices.Sort(ids)
	}
	list := []waiting{}
	for _, id := range ids {
		open, err := on.Approvals(ctx, id)
		if err != nil {
			return nil, on.explain(err, id)
		}
		for i := range open {
			a := &open[i]
			if c.Session == "" && a.Session != id {
				continue // of an agent, whose session is in the list itself
			}
			list = append(list, waiting{Session: a.Session, Call: a.Effect, Tool: a.Tool, Args: eventjson.Raw(a.Args), Plugin: a.Plugin, Question: a.Question})
		}
	}
	return list, nil
}

func (c *client) explain(err error, id events.SessionID) error {
	if erased, ok := errors.AsType[*events.ErasedError](err); ok {
		return erased
	}
	if errors.Is(err, events.ErrNoSession) {
		return fmt.Errorf("there is no session %s here: lash-replay%s ls lists what there is", id, c.where)
	}
	return err
}

func (c *approvalsCmd) print(s *streams, list []waiting) {
	if len(list) == 0 {
		write(s.Out, "no call waits for an approval\n")
		return
	}
	for _, w := range list {
		write(s.Out, "%s %s\n  %s (asks %s)\n  %s %s\n", w.Session, w.Call, transcript.VisibleLine(w.Question), transcript.VisibleLine(w.Plugin), transcript.VisibleLine(w.Tool), transcript.VisibleLine(clipped(string(w.Args))))
	}
	write(s.Out, "\n%s", c.howToAnswer(list[0].Session, list[0].Call))
}

// howToAnswer has the commands that answer a call. The servers of named credentials have roles: a host's certificate,
// which can list calls, cannot approve them as a node does.
func (c *approvalsCmd) howToAnswer(id events.SessionID, call events.EffectID) string {
	if c.Named() || strings.Contains(c.NATS, "@") {
		return fmt.Sprintf("answer with: lash-node chat%s --session %s, as a user of role %s\n         or: lash-node approve --nats %s %s %s, with the credentials and the inbox of a user of role %s\n",
			c.where(), id, connect.Host, connect.Quoted(bus.WithoutPasswords(c.NATS)), id, call, connect.Node)
	}
	approve := fmt.Sprintf("lash-node approve%s %s %s", c.where(), id, call)
	return fmt.Sprintf("answer with: %s\n         or: %s --deny REASON\n", approve, approve)
}

// clipped shortens the arguments of a call for display.
func clipped(text string) string {
	const limit = 2000
	if len(text) <= limit {
		return text
	}
	return fmt.Sprintf("%s … (%d bytes, --json shows all)", strings.ToValidUTF8(text[:limit], ""), len(text))
}
