package bus

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
)

// Room offers what a worker holds of the class and does not work on, until
// stop. Of all that offer some, one is asked at a time: give is called, from one
// goroutine, and gives some of it back to the queue before it returns.
func (w *Work) Room(give func()) (stop func(), err error) {
	return w.b.listen(w.b.names.room(w.class), string(w.class), func(m *nats.Msg) {
		if isInbox(m.Reply) {
			give()
			_ = m.Respond(nil)
		}
	})
}

// AskRoom asks for what another worker holds of the class and does not work on.
// When it returns nil, some of that is in the queue, before all that nobody
// took yet. Where no worker offers any it is [ErrNotFound], at once.
func (b *Bus) AskRoom(ctx context.Context, class Class) error {
	_, err := b.nc.RequestWithContext(ctx, b.names.room(class), nil)
	if isUnheard(err) {
		return fmt.Errorf("ask for work: %w", ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("ask for work: %w", mapError(err))
	}
	return nil
}
