package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

type approveCmd struct {
	Session events.SessionID `arg:"" help:"The session that asks."`
	Call    events.EffectID  `arg:"" help:"The call, as lash-node approvals lists it."`
	clientFlags

	Deny *string `help:"Refuse the call. The model reads the reason." placeholder:"REASON"`
	JSON bool    `name:"json" help:"Print one JSON object."`
}

// Help implements [kong.HelpProvider].
func (*approveCmd) Help() string {
	return "Exit codes: 0 the answer counts, 1 somebody had answered otherwise, 2 it could not be done."
}

// answered is what became of an answer.
type answered struct {
	Session  events.SessionID `json:"session"`
	Call     events.EffectID  `json:"call"`
	Granted  bool             `json:"granted"`
	Reason   string           `json:"reason,omitempty"`
	Recorded bool             `json:"recorded"` // false: it is kept, and waits for a node
}

// recordWait is how long a node may take to put the answer into the history.
const recordWait = 10 * time.Second

func (c *approveCmd) Run(ctx context.Context, s *streams) error {
	on, err := c.open(ctx, s)
	if err != nil {
		return err
	}
	defer on.bus.Close()
	before, err := on.State(ctx, c.Session)
	if err != nil {
		return on.explain(err, c.Session)
	}
	out := answered{Session: c.Session, Call: c.Call, Granted: c.Deny == nil}
	if c.Deny != nil {
		out.Reason = *c.Deny
	}
	err = on.Approve(ctx, c.Session, events.ToolApprovalGiven{Effect: c.Call, Granted: out.Granted, Reason: out.Reason})
	if errors.Is(err, api.ErrNotAsked) {
		return fmt.Errorf("%w: lash-node approvals lists the calls that wait", err)
	}
	if err == nil {
		over := s.Waiting("a node that puts the answer into the history")
		first := c.counted(ctx, on, before)
		over()
		if out.Recorded = first != nil; first != nil && first.Granted != out.Granted {
			err = session.ErrDifferent
		}
	}
	if errors.Is(err, session.ErrDifferent) {
		return fmt.Errorf("%w: %w", errAnswered, err)
	}
	if err != nil || c.JSON {
		return errors.Join(err, writeIf(err == nil, s, out))
	}
	word := map[bool]string{true: "approved", false: "denied"}[out.Granted]
	write(s.Out, "%s: call %s of session %s\n", word, c.Call, c.Session)
	if !out.Recorded {
		write(s.Err, "lash-node: no node has taken the answer yet; it is kept, and counts if it is the first\n")
	}
	return nil
}

// errAnswered makes the exit code 1.
var errAnswered = errors.New("somebody has answered otherwise")

func writeIf(yes bool, s *streams, v any) error {
	if !yes {
		return nil
	}
	return writeJSON(s, v)
}

// counted waits for the answer that counts, which may be another's. It is nil
// where none is known in time: no node runs, or the servers are gone. Ours is
// kept all the same.
func (c *approveCmd) counted(ctx context.Context, on *client, from *projector.State) *events.ToolApprovalGiven {
	ctx, cancel := context.WithTimeout(ctx, recordWait)
	defer cancel()
	for {
		if first, err := c.given(ctx, on, from); first != nil || err != nil || !bus.Sleep(ctx, askEvery) {
			return first
		}
	}
}

// given is the answer that counts; nil while there is none.
func (c *approveCmd) given(ctx context.Context, on *client, from *projector.State) (*events.ToolApprovalGiven, error) {
	if t := from.Turn(); t != nil {
		if a := t.Approval(c.Call); a != nil && a.Answered {
			return &a.Answer, nil
		}
	}
	for e, err := range on.bus.Log().Read(ctx, c.Session, from.Seq+1) {
		if err != nil {
			return nil, err
		}
		for i := range e.Commit.Events {
			if p, ok := e.Commit.Events[i].Payload.(*events.ToolApprovalGiven); ok && p.Effect == c.Call {
				return p, nil
			}
		}
	}
	return nil, nil //nolint:nilnil // nobody has answered
}
