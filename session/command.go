package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/turn"
)

// Command is a durable request, as it travels in the queue: for a turn, or
// for one that waits to go on. Its id, of a request for a turn the turn's, is
// the queue's key, so that the same command waits there once.
type Command struct {
	Input   events.TurnInput         `msgpack:"i"`
	Actor   string                   `msgpack:"a,omitempty"`
	Answer  events.ToolApprovalGiven `msgpack:"w,omitempty"` // to a question about a call
	Resolve events.ToolResolved      `msgpack:"r,omitempty"` // of a pending call
	Cancel  Cancellation             `msgpack:"c,omitempty"` // of a parked turn, which no worker holds
	Wake    bool                     `msgpack:"k,omitempty"` // the turn is for inputs that wait; without any it is not even recorded
	Busy    events.WhenBusy          `msgpack:"b,omitempty"` // of a request for a turn: what becomes of it while another one runs
	Seen    events.Seq               `msgpack:"s,omitempty"` // the end of the session as the client saw it last: a worker that knows less looks first
	Cover   bool                     `msgpack:"v,omitempty"` // asks for nothing: a worker is to go on with what the session owes
}

// Cancellation asks for the end of a turn.
type Cancellation struct {
	Turn    events.TurnID              `msgpack:"t"`
	Request events.TurnCancelRequested `msgpack:"r"`
}

// IsZero reports whether it cancels nothing.
func (c Cancellation) IsZero() bool { return c.Turn == "" }

// AsksForTurn reports whether the command is a request for a turn of its own.
func (c *Command) AsksForTurn() bool {
	return c.Answer.IsZero() && c.Resolve.IsZero() && c.Cancel.IsZero() && !c.Cover
}

// enqueue puts a command in the queue, where one of the same id is as good.
func enqueue(ctx context.Context, b *bus.Bus, id events.SessionID, turn events.TurnID, cmd Command) error {
	_, err := enqueueNew(ctx, b, id, turn, cmd)
	return err
}

// enqueueNew is enqueue that tells whether one of the same id waited already.
func enqueueNew(ctx context.Context, b *bus.Bus, id events.SessionID, turn events.TurnID, cmd Command) (waited bool, err error) {
	if err := cmd.check(); err != nil {
		return false, fmt.Errorf("submit turn %s: %w", turn, err)
	}
	body, err := events.EncodePayload(&cmd)
	if err != nil {
		return false, fmt.Errorf("submit turn %s: %w", turn, err)
	}
	err = b.Enqueue(ctx, bus.ClassTurn, id, string(turn), body)
	if waited = errors.Is(err, bus.ErrQueued); err != nil && !waited {
		return false, fmt.Errorf("submit turn %s: %w", turn, err)
	}
	return waited, nil
}

// queuedTurn is a turn whose command waits in the queue.
func (h *Host) queuedTurn(ctx context.Context, id events.SessionID, turn events.TurnID) (unrecordedTurn, error) {
	cmd, waits, err := h.queuedCommand(ctx, id, turn)
	return unrecordedTurn{waits: waits && cmd.AsksForTurn() && !cmd.Wake, input: cmd.Input}, err
}

// queuedCommand is the command of that id that waits in the queue; false when there is none.
func (h *Host) queuedCommand(ctx context.Context, id events.SessionID, name events.TurnID) (Command, bool, error) {
	body, err := h.b.Queued(ctx, bus.ClassTurn, id, string(name))
	if errors.Is(err, bus.ErrNotFound) {
		return Command{}, false, nil
	}
	if err != nil {
		return Command{}, false, err
	}
	cmd, err := DecodeCommand(body)
	return cmd, err == nil, err
}

// DecodeCommand reads a queued command, which anybody may have put there: what
// it returns, a history takes.
func DecodeCommand(body []byte) (Command, error) {
	var cmd Command
	err := events.DecodePayload(body, &cmd)
	if err == nil {
		err = cmd.check()
	}
	return cmd, err
}

// check looks at what would become events.
func (c *Command) check() error {
	err := errors.Join((&events.TurnRequested{Input: c.Input}).Validate(), c.Busy.Check(c.Input))
	if !c.Answer.IsZero() {
		err = errors.Join(err, c.Answer.Validate())
	}
	if !c.Resolve.IsZero() {
		err = errors.Join(err, c.Resolve.Validate())
	}
	if !c.Cancel.IsZero() {
		err = errors.Join(err, events.CheckToken("turn", c.Cancel.Turn), c.Cancel.Request.Validate())
	}
	return err
}

// Answering is what a command that asks for no turn means to the running one; nil where it means nothing to it.
func (c *Command) Answering() turn.Input {
	switch {
	case !c.Answer.IsZero():
		return turn.Answer{ToolApprovalGiven: c.Answer}
	case !c.Cancel.IsZero():
		return turn.Cancel{Turn: c.Cancel.Turn, TurnCancelRequested: c.Cancel.Request}
	case !c.Resolve.IsZero():
		return turn.Resolved{ToolResolved: c.Resolve}
	}
	return nil
}
