package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

type approveCmd struct {
	Session events.SessionID `arg:"" help:"The session that asks."`
	Call    events.EffectID  `arg:"" help:"The call, as lash-node approvals lists it."`
	personFlags

	Deny   *string `help:"Refuse the call. The model reads the reason." placeholder:"REASON" xor:"answer"`
	Answer string  `help:"Grant, with what the question asks for: the JSON of an object, or the value of its only field." placeholder:"TEXT" xor:"answer"`
	JSON   bool    `name:"json" help:"Print one JSON object."`
}

func (*approveCmd) Help() string {
	return "Exit codes: 0 the answer counts, 1 another answer came first, 2 it could not be done."
}

// recordedAnswer is the answer that the history records.
type recordedAnswer struct {
	Session events.SessionID `json:"session"`
	Call    events.EffectID  `json:"call"`
	Granted bool             `json:"granted"`
	Reason  string           `json:"reason,omitempty"`
}

func (c *approveCmd) Run(ctx context.Context, s *streams) error {
	return c.with(ctx, s, func(ctx context.Context, on *client) error { return c.approve(ctx, s, on) })
}

func (c *approveCmd) approve(ctx context.Context, s *streams, on *client) error {
	if _, err := on.State(ctx, c.Session); err != nil {
		return on.explain(err, c.Session)
	}
	out := recordedAnswer{Session: c.Session, Call: c.Call, Granted: c.Deny == nil, Reason: c.Answer}
	if c.Deny != nil {
		out.Reason = *c.Deny
	}
	err := on.Approve(ctx, c.Session, events.ToolApprovalGiven{Effect: c.Call, Granted: out.Granted, Reason: out.Reason})
	if errors.Is(err, api.ErrNotAsked) {
		return fmt.Errorf("%w: lash-node approvals lists the calls that wait", err)
	}
	if errors.Is(err, api.ErrDifferent) {
		return fmt.Errorf("%w: %w: lash-replay show %s shows it", errAnsweredOtherwise, err, c.Session)
	}
	if err != nil || c.JSON {
		return errors.Join(err, writeIf(err == nil, s, out))
	}
	text := map[bool]string{true: "approved", false: "denied"}[out.Granted]
	write(s.Out, "%s: call %s of session %s\n", text, c.Call, c.Session)
	return nil
}

var errAnsweredOtherwise = program.Difference("the call has another answer already")

func writeIf(yes bool, s *streams, v any) error {
	if !yes {
		return nil
	}
	return writeJSON(s, v)
}
