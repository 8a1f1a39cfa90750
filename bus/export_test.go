package bus

import (
	"context"

	"github.com/lash-go/lash/events"
)

// Opener finds a session cold now, and opens it when it is called.
func (b *Bus) Opener(ctx context.Context, session events.SessionID) (open func() error, err error) {
	row, err := b.archived(ctx, session)
	return func() error { return b.reopen(ctx, session, row) }, err
}

// HalfOpen makes the next stream of a session, as one does who dies before the entry names it.
func (b *Bus) HalfOpen(ctx context.Context, session events.SessionID) error {
	row, err := b.archived(ctx, session)
	if err != nil {
		return err
	}
	return b.makeStream(ctx, b.openingConfig(session, row, "nonce"))
}
