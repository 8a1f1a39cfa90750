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

// HalfOpen makes the next stream of a session, as one does who dies before the
// entry names it, or sleeps, and goes on with name.
func (b *Bus) HalfOpen(ctx context.Context, session events.SessionID) (name func() error, err error) {
	row, err := b.archived(ctx, session)
	if err != nil {
		return nil, err
	}
	cfg := b.openingConfig(session, row, "nonce")
	row.Next = cfg.Name
	return func() error { return b.putArchived(ctx, session, &row) }, b.makeStream(ctx, cfg)
}

// Sleeper reads a session's entry now, and puts it when it is called, on another bus.
func (b *Bus) Sleeper(ctx context.Context, session events.SessionID) (put func(*Bus) error, err error) {
	row, err := b.archived(ctx, session)
	return func(later *Bus) error { return later.putArchived(ctx, session, &row) }, err
}

// Slow creates a session up to where its first commit is published, and publishes that when it is called.
func (b *Bus) Slow(ctx context.Context, c *events.Commit) (publish func() (events.Seq, error), err error) {
	data, err := events.Encode(c)
	if err == nil {
		err = b.Log().create(ctx, c.Session)
	}
	return func() (events.Seq, error) { return b.Log().first(ctx, c, data) }, err
}

// Stray makes a session's first stream, as a creator does who found no session.
func (b *Bus) Stray(ctx context.Context, session events.SessionID) error {
	return b.makeStream(ctx, b.sessionConfig(session, b.names.firstStream(session)))
}

// StrayWith makes that stream with a commit in it, as the server may that is just deleting one of its name.
func (b *Bus) StrayWith(ctx context.Context, c *events.Commit) error {
	data, err := events.Encode(c)
	if err == nil {
		err = b.Stray(ctx, c.Session)
	}
	if err == nil {
		_, err = b.Log().publish(ctx, c, data, 0)
	}
	return err
}

// Unbegun removes a session's first stream if it has no commit, at any age.
func (b *Bus) Unbegun(ctx context.Context, session events.SessionID) error {
	return b.unbegun(ctx, session)
}
