package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// pullBeat is how often the server says that a pull still waits: after two of
// them in silence the pull is made again. Whoever led the consumer may be gone,
// and its successor knows of no pull.
const pullBeat = time.Second

// join makes sure of a consumer, whose messages are acked one by one and come until they are.
func (b *Bus) join(ctx context.Context, stream string, cfg jetstream.ConsumerConfig) (consumer jetstream.Consumer, err error) {
	cfg.AckPolicy, cfg.MaxDeliver, cfg.MaxAckPending = jetstream.AckExplicitPolicy, -1, -1
	err = b.retry(ctx, "join "+stream, func(ctx context.Context) (err error) {
		consumer, err = b.js.CreateOrUpdateConsumer(ctx, stream, cfg)
		return err
	})
	return consumer, err
}

// fetch takes up to n messages, as many as come within wait, and hands each to take as it arrives.
func (b *Bus) fetch(ctx context.Context, from jetstream.Consumer, n int, wait time.Duration, take func(jetstream.Msg)) error {
	once, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	opts := []jetstream.FetchOpt{jetstream.FetchContext(once)}
	if wait > 3*pullBeat { // the server wants two to fit in
		opts = append(opts, jetstream.FetchHeartbeat(pullBeat))
	}
	batch, err := from.Fetch(n, opts...)
	if err != nil {
		return fmt.Errorf("fetch from %s: %w", from.CachedInfo().Name, mapError(err))
	}
	err = b.takeAll(ctx, batch, take)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	b.heard(err)
	return err
}

// takeAll hands over what a pull brings, until it ends.
func (b *Bus) takeAll(ctx context.Context, batch jetstream.MessageBatch, take func(jetstream.Msg)) error {
	for msg := range batch.Messages() {
		if ctx.Err() != nil {
			_ = msg.Nak() // nobody would begin it
			continue
		}
		take(msg)
	}
	return mapError(batch.Error())
}
