package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// pullBeat is how often the server says that a pull still waits: after two
// missing beats the pull is made again. The leader of the consumer may be gone,
// and its successor knows of no pull.
const pullBeat = time.Second

// consumer is a durable consumer that is made again where it, or its stream, disappears.
type consumer struct {
	b      *Bus
	stream jetstream.StreamConfig
	cfg    jetstream.ConsumerConfig
	js     jetstream.Consumer
}

// join makes sure of a consumer, whose messages are acked one by one and come until they are.
func (b *Bus) join(ctx context.Context, stream jetstream.StreamConfig, cfg jetstream.ConsumerConfig) (*consumer, error) {
	cfg.AckPolicy, cfg.MaxDeliver, cfg.MaxAckPending = jetstream.AckExplicitPolicy, -1, -1
	c := &consumer{b: b, stream: stream, cfg: cfg}
	return c, c.make(ctx)
}

func (c *consumer) make(ctx context.Context) error {
	return c.b.retry(ctx, "join "+c.stream.Name, func(ctx context.Context) error {
		js, err := c.b.js.CreateOrUpdateConsumer(ctx, c.stream.Name, c.cfg)
		if err == nil { // the one before stays, so that a later fetch fails, and tries again
			c.js = js
		}
		return err
	})
}

// fetch takes up to n messages, as many as come within wait, and hands each to
// take as it arrives. remade says that the consumer, or its stream, was gone.
func (c *consumer) fetch(ctx context.Context, n int, wait time.Duration, take func(jetstream.Msg)) (remade bool, err error) {
	once, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	opts := []jetstream.FetchOpt{jetstream.FetchContext(once)}
	if wait > 3*pullBeat { // the server wants two to fit in
		opts = append(opts, jetstream.FetchHeartbeat(pullBeat))
	}
	batch, err := c.js.Fetch(n, opts...)
	if err == nil {
		err = takeAll(ctx, batch, take)
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	c.b.heard(err)
	if err == nil {
		return false, nil
	}
	remade, lookErr := c.remake(ctx)
	if remade {
		return true, nil
	}
	return false, fmt.Errorf("fetch from %s: %w", c.stream.Name, errors.Join(mapError(err), lookErr))
}

// remakeWait is how long a consumer is missing before it is made again. The
// server ends the consumers of a stream that is deleted first, and removes its
// store later: a stream of the same name that is made in between opens the
// store that is about to go, and then keeps nothing that is published to it.
const remakeWait = 500 * time.Millisecond

// remake makes the consumer and its stream again where one of them is missing.
func (c *consumer) remake(ctx context.Context) (remade bool, err error) {
	err = c.b.once(ctx, func(ctx context.Context) error {
		_, err := c.b.js.Consumer(ctx, c.stream.Name, c.cfg.Durable)
		return err
	})
	if !isNoAsset(err) && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return false, err
	}
	if !Sleep(ctx, remakeWait) {
		return false, context.Cause(ctx)
	}
	c.b.log.Warn("a stream or its consumer is gone and is made again", zap.String("stream", c.stream.Name), zap.String("consumer", c.cfg.Durable))
	if err := c.b.ensureStream(ctx, c.stream); err != nil {
		return false, err
	}
	if err := c.make(ctx); err != nil {
		return false, err // the next fetch finds it missing again
	}
	return true, nil
}

// takeAll hands over what a pull brings, until it ends.
func takeAll(ctx context.Context, batch jetstream.MessageBatch, take func(jetstream.Msg)) error {
	for msg := range batch.Messages() {
		if ctx.Err() != nil {
			_ = msg.Nak() // the worker stops: another one may begin it at once
			continue
		}
		take(msg)
	}
	return batch.Error()
}
