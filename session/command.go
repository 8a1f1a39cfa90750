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

func enqueue(ctx context.Context, b *bus.Bus, id events.SessionID, turn events.TurnID, cmd Command) error {
	if err := (&events.TurnRequested{Input: cmd.Input}).Validate(); err != nil {
		return fmt.Errorf("submit turn %s: %w", turn, err)
	}
	body, err := events.EncodePayload(&cmd)
	if err != nil {
		return fmt.Errorf("submit turn %s: %w", turn, err)
	}
	err = b.Enqueue(ctx, bus.ClassTurn, id, string(turn), body)
	if err != nil && !errors.Is(err, bus.ErrQueued) {
		return fmt.Errorf("submit turn %s: %w", turn, err)
	}
	return nil
}

// DecodeCommand reads a queued command.
func DecodeCommand(body []byte) (Command, error) {
	var cmd Command
	err := events.DecodePayload(body, &cmd)
	return cmd, err
}
