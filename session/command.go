package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
)

// Command is a durable request, as it travels in the queue: for a turn, or
// for one that waits to go on. Its id, of a request for a turn the turn's, is
// the queue's key, so that the same command waits there once.
type Command struct {
	Input   events.TurnInput         `msgpack:"i"`
	Actor   string                   `msgpack:"a,omitempty"`
	Answer  events.ToolApprovalGiven `msgpack:"w,omitempty"` // to a question about a call
	Resolve events.ToolResolved      `msgpack:"r,omitempty"` // of a pending call
	Wake    bool                     `msgpack:"k,omitempty"` // the turn is for inputs that wait; without any it is not even recorded
}

// AsksForTurn reports whether the command is a request for a turn of its own.
func (c *Command) AsksForTurn() bool { return c.Answer.Effect == "" && c.Resolve.Effect == "" }

// enqueue puts a command in the queue, where one of the same id is as good.
func enqueue(ctx context.Context, b *bus.Bus, id events.SessionID, turn events.TurnID, cmd Command) error {
	_, err := enqueueNew(ctx, b, id, turn, cmd)
	return err
}

// enqueueNew is enqueue that tells whether one of the same id waited already.
func enqueueNew(ctx context.Context, b *bus.Bus, id events.SessionID, turn events.TurnID, cmd Command) (waited bool, err error) {
	if err := (&events.TurnRequested{Input: cmd.Input}).Validate(); err != nil {
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

// queuedTurn is the input of a command that asks for a turn and waits in the
// queue; false when there is none.
func (h *Host) queuedTurn(ctx context.Context, id events.SessionID, turn events.TurnID) (events.TurnInput, bool, error) {
	body, err := h.b.Queued(ctx, bus.ClassTurn, id, string(turn))
	if errors.Is(err, bus.ErrNotFound) {
		return events.TurnInput{}, false, nil
	}
	if err != nil {
		return events.TurnInput{}, false, err
	}
	cmd, err := DecodeCommand(body)
	return cmd.Input, err == nil && cmd.AsksForTurn() && !cmd.Wake, err
}

// DecodeCommand reads a queued command.
func DecodeCommand(body []byte) (Command, error) {
	var cmd Command
	err := events.DecodePayload(body, &cmd)
	return cmd, err
}
