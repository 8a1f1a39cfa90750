package session

import (
	"context"

	"github.com/lash-go/lash/events"
)

// Cover puts a command in the queue that asks for nothing: the worker that
// takes it goes on with what the session owes and no other command covers. A
// session that owes nothing is left as it is. The same key is the same command.
func (h *Host) Cover(ctx context.Context, id events.SessionID, key string) error {
	return enqueue(ctx, h.b, id, events.TurnID("cover-"+key), Command{Actor: h.actor.ID, Cover: true})
}
