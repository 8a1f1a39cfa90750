package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrUndrained is a command of an earlier version, in the queue or in a timer, that only that version can perform.
var ErrUndrained = errors.New("commands of an earlier version wait")

// drained refuses to turn the queue and the timers of an earlier version, which
// hold commands, into wakes while a command is left: nothing would perform it.
func (b *Bus) drained(ctx context.Context) error {
	timers, err := b.oldTimers(ctx)
	switch {
	case err != nil && !isNoAsset(err):
		return err
	case len(timers) > 0:
		return fmt.Errorf("%w: %d in stream %s; with a node of that version, cancel the turns that wait for their time or let them run, then start this one; they are, as session and turn: %s",
			ErrUndrained, len(timers), b.names.timerStream(), strings.Join(timers[:min(len(timers), 8)], ", "))
	}
	return b.drainedQueue(ctx)
}

// oldTimers lists the timers of earlier versions, each as its session and turn. A
// message without a due time is no timer: a client can have a server store one.
func (b *Bus) oldTimers(ctx context.Context) (list []string, err error) {
	subjects, err := b.subjects(ctx, b.names.timerStream(), b.names.oldTimers())
	for subject := range subjects {
		msg, err := b.last(ctx, b.names.timerStream(), subject)
		switch {
		case errors.Is(err, ErrNotFound):
		case err != nil:
			return nil, err
		case msg.Header.Get(headerDue) != "":
			tokens := strings.Split(subject, ".")
			list = append(list, strings.Join(tokens[len(tokens)-2:], " "))
		}
	}
	return list, err
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
