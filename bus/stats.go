package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
)

// Stats is the state of the shared assets.
type Stats struct {
	Queue    map[Class]QueueStats
	Dirty    uint64 // sessions with commits that are not projected yet
	Archived uint64 // archive entries
	Dead     int    // dead letters
	Streams  int    // of the account: the hot sessions, and the shared streams
	Bytes    uint64 // of the account, on disk
	Limit    int64  // of Bytes; 0: none
}

// QueueStats is the state of one class of the queue.
type QueueStats struct {
	Waiting     uint64 // wakes that are not delivered
	AckPending  int    // wakes that are delivered and not acked
	Delivered   uint64 // deliveries so far, redeliveries included
	Redelivered int    // of AckPending: delivered more than once
}

// Stats requests the state of the shared assets from the servers.
func (b *Bus) Stats(ctx context.Context) (Stats, error) {
	ctx, cancel := b.timeout(ctx)
	defer cancel()
	s := Stats{Queue: make(map[Class]QueueStats)}
	account, err := b.js.AccountInfo(ctx)
	if err != nil {
		return s, fmt.Errorf("account info: %w", mapError(err))
	}
	s.Streams, s.Bytes, s.Limit = account.Streams, account.Store, max(account.Limits.MaxStore, 0)
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
	for _, class := range append(TurnClasses(), ClassTool, ClassTask) {
		c, err := b.js.Consumer(ctx, b.names.workStream(), string(class))
		if err = mapError(err); errors.Is(err, ErrNotFound) {
			continue // no worker has joined yet
		}
		if err != nil {
			return s, fmt.Errorf("queue info: %w", err)
		}
		info := c.CachedInfo()
		s.Queue[class] = QueueStats{
			Waiting: info.NumPending, AckPending: info.NumAckPending, Delivered: info.Delivered.Consumer, Redelivered: info.NumRedelivered,
		}
	}
	return s, nil
}

// Ready is nil if the bus is connected, the work queue has a leader, no shared stream is missing, and no stream refuses
// appends because of storage. Errors: [events.ErrStorage], [ErrNotFound], [events.ErrOutcomeUnknown].
func (b *Bus) Ready(ctx context.Context) error {
	if !b.nc.IsConnected() {
		return fmt.Errorf("not connected to the servers, %s: %w", b.nc.Status(), events.ErrOutcomeUnknown)
	}
	if _, err := b.streamInfo(ctx, b.names.workStream()); err != nil {
		return fmt.Errorf("work queue: %w", err)
	}
	if err := b.storageRefused(ctx); err != nil {
		return err
	}
	missing, err := b.MissingStreams(ctx)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%w: %s: nodes make all of them again but the archives", ErrNotFound, strings.Join(missing, ", "))
	}
	return err
}

// Answers is nil if JetStream answers. Without more than half of its servers a cluster still answers reads of streams, and no other request: then the
// error is [events.ErrOutcomeUnknown].
func (b *Bus) Answers(ctx context.Context) error {
	ctx, cancel := b.timeout(ctx)
	defer cancel()
	if _, err := b.js.StreamNameBySubject(ctx, b.names.deadAll()); !isAnswer(err) {
		return fmt.Errorf("list streams: %w", mapError(err))
	}
	return nil
}

// Reconnects counts the reconnects of the primary connection.
func (b *Bus) Reconnects() uint64 { return b.nc.Stats().Reconnects }
