package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrUndrained is a command of an earlier version, in the queue or in a timer, that only that version can perform.
var ErrUndrained = errors.New("commands of an earlier version wait")

// drained refuses to turn the queue and the timers of an earlier version, which
// hold commands, into wakes while a command is left: nothing would perform it.
func (b *Bus) drained(ctx context.Context) error {
	timers, err := b.subjects(ctx, b.names.timerStream(), b.names.oldTimers())
	switch {
	case err != nil && !isNoAsset(err):
		return err
	case len(timers) > 0:
		return fmt.Errorf("%w: %d in stream %s; with a node of that version, cancel the turns that wait for their time or let them run, then start this one",
			ErrUndrained, len(timers), b.names.timerStream())
	}
	return b.drainedQueue(ctx)
}

// drainedQueue does so with the queue. Its wakes of tasks are forgotten: the sweep makes them again.
func (b *Bus) drainedQueue(ctx context.Context) error {
	var cfg jetstream.StreamConfig
	err := b.retry(ctx, "look at the queue", func(ctx context.Context) error {
		s, err := b.js.Stream(ctx, b.names.workStream())
		if err == nil {
			cfg = s.CachedInfo().Config
		}
		return err
	})
	switch {
	case isNoAsset(err):
		return nil
	case err != nil || !cfg.DiscardNewPerSubject:
		return err
	}
	left, err := b.subjects(ctx, b.names.workStream(), b.names.oldWork())
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("%w: %d in stream %s; start a node of that version until its queue is empty, then this one", ErrUndrained, len(left), b.names.workStream())
	}
	return b.purgeSubject(ctx, b.names.workStream(), b.names.workAll()) // its settings are brought up to date next
}
