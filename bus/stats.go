package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lash-go/lash/events"
)

// Stats is how the shared assets stand.
type Stats struct {
	Queue    map[Class]QueueStats
	Dirty    uint64 // sessions that moved and are not projected yet
	Archived uint64 // sessions of which something is archived
	Dead     int    // dead letters
	Streams  int    // of the account: the hot sessions, and ten shared ones
	Bytes    uint64 // the account's, on disk
}

// QueueStats is how a class of the queue stands.
type QueueStats struct {
	Waiting   uint64 // wakes that no worker has
	Held      int    // that a worker has
	Delivered uint64 // deliveries so far, second ones too
	Again     int    // held ones that are not delivered for the first time
}

// Stats asks the servers how the shared assets stand.
func (b *Bus) Stats(ctx context.Context) (Stats, error) {
	ctx, cancel := b.timeout(ctx)
	defer cancel()
	s := Stats{Queue: make(map[Class]QueueStats)}
	account, err := b.js.AccountInfo(ctx)
	if err != nil {
		return s, fmt.Errorf("account info: %w", mapError(err))
	}
	s.Streams, s.Bytes = account.Streams, account.Store
	for name, into := range map[string]*uint64{b.names.dirtyStream(): &s.Dirty, b.names.archiveStream(): &s.Archived} {
		stream, err := b.js.Stream(ctx, name)
		if err != nil {
			return s, fmt.Errorf("stream info: %w", mapError(err))
		}
		*into = stream.CachedInfo().State.Msgs
	}
	dead, err := b.subjects(ctx, b.names.deadStream(), b.names.deadAll())
	if err != nil {
		return s, fmt.Errorf("dead letters: %w", err)
	}
	s.Dead = len(dead)
	for _, class := range []Class{ClassTurn, ClassTool, ClassTask} {
		c, err := b.js.Consumer(ctx, b.names.workStream(), string(class))
		if err = mapError(err); errors.Is(err, ErrNotFound) {
			continue // nobody has joined yet
		}
		if err != nil {
			return s, fmt.Errorf("queue info: %w", err)
		}
		info := c.CachedInfo()
		s.Queue[class] = QueueStats{
			Waiting: info.NumPending, Held: info.NumAckPending, Delivered: info.Delivered.Consumer, Again: info.NumRedelivered,
		}
	}
	return s, nil
}

// Ready is nil where the servers answer: who asks is connected, the queue has a leader, and no shared stream is gone.
func (b *Bus) Ready(ctx context.Context) error {
	if !b.nc.IsConnected() {
		return fmt.Errorf("not connected to the servers, %s: %w", b.nc.Status(), events.ErrOutcomeUnknown)
	}
	if _, err := b.streamInfo(ctx, b.names.workStream()); err != nil {
		return fmt.Errorf("work queue: %w", err)
	}
	missing, err := b.Missing(ctx)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%w: %s: nodes make all of them again but the archives", ErrNotFound, strings.Join(missing, ", "))
	}
	return err
}

// Reconnects is how often the connection came back.
func (b *Bus) Reconnects() uint64 { return b.nc.Stats().Reconnects }

// Now is the time by a server's clock.
func (b *Bus) Now(ctx context.Context) (time.Time, error) {
	ctx, cancel := b.timeout(ctx)
	defer cancel()
	stream, err := b.js.Stream(ctx, b.names.archiveStream())
	if err == nil && stream.CachedInfo().TimeStamp.IsZero() {
		err = errors.New("the server did not say")
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("a server's time: %w", mapError(err))
	}
	return stream.CachedInfo().TimeStamp, nil
}
