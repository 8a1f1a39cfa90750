package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/lash-go/lash/bus/delay"
)

// pullBeat is the interval of the server's heartbeats for a waiting pull. After two missing ones the pull is made
// again: the consumer's leader may be gone, and its successor has no pull.
const pullBeat = time.Second

// consumer is a durable consumer that is created again when it, or its stream, is gone.
type consumer struct {
	b      *Bus
	stream jetstream.StreamConfig
	cfg    jetstream.ConsumerConfig
	js     jetstream.Consumer
}

// joinConsumer creates or joins a consumer. Its messages are acked one by one, and redelivered until then.
func (b *Bus) joinConsumer(ctx context.Context, stream jetstream.StreamConfig, cfg jetstream.ConsumerConfig) (*consumer, error) {
	cfg.AckPolicy, cfg.MaxDeliver, cfg.MaxAckPending = jetstream.AckExplicitPolicy, -1, cmp.Or(cfg.MaxAckPending, -1)
	c := &consumer{b: b, stream: stream, cfg: cfg}
	return c, c.create(ctx)
}

func (c *consumer) create(ctx context.Context) error {
	return c.b.retry(ctx, "join "+c.stream.Name, func(ctx context.Context) error {
		js, err := c.b.js.CreateOrUpdateConsumer(ctx, c.stream.Name, c.cfg)
		if err == nil { // on an error the earlier handle stays: a later fetch fails and tries again
			c.js = js
		}
		return err
	})
}

// fetch calls take with up to n messages, as many as arrive within wait. recreated reports that the consumer, or its
// stream, was gone.
func (c *consumer) fetch(ctx context.Context, n int, wait time.Duration, take func(jetstream.Msg)) (recreated bool, err error) {
	once, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	opts := []jetstream.FetchOpt{jetstream.FetchContext(once)}
	if wait > 3*pullBeat { // the server requires two in this time
		opts = append(opts, jetstream.FetchHeartbeat(pullBeat))
	}
	batch, err := c.js.Fetch(n, opts...)
	if err == nil {
		err = deliverAll(ctx, batch, take)
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	c.b.recordOutcome(err)
	if err == nil {
		return false, nil
	}
	recreated, lookErr := c.recreate(ctx)
	if recreated {
		return true, nil
	}
	return false, fmt.Errorf("fetch from %s: %w", c.stream.Name, errors.Join(mapError(err), lookErr))
}

// recreateWait is how long a consumer is missing before it is created again. The server ends the consumers of a
// deleted stream first, and removes the stream's files later. A stream of the same name that is made in between opens
// those files, and then keeps nothing that is published to it.
const recreateWait = 500 * time.Millisecond

// recreate creates the consumer and its stream again where one of them is missing.
func (c *consumer) recreate(ctx context.Context) (recreated bool, err error) {
	err = c.b.once(ctx, func(ctx context.Context) error {
		_, err := c.b.js.Consumer(ctx, c.stream.Name, c.cfg.Durable)
		return err
	})
	if !isNoAsset(err) && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return false, err
	}
	if !delay.Sleep(ctx, recreateWait) {
		return false, context.Cause(ctx)
	}
	c.b.log.Warn("a stream or its consumer is gone and is made again", zap.String("stream", c.stream.Name), zap.String("consumer", c.cfg.Durable))
	if err := c.b.ensureStream(ctx, c.stream); err != nil {
		return false, err
	}
	if err := c.create(ctx); err != nil {
		return false, err // the next fetch finds it missing again
	}
	return true, nil
}

// deliverAll calls take with the messages of a pull, until it ends.
func deliverAll(ctx context.Context, batch jetstream.MessageBatch, take func(jetstream.Msg)) error {
	for msg := range batch.Messages() {
		if ctx.Err() != nil {
			_ = msg.Nak() // the worker stops: another one may start it at once
			continue
		}
		take(msg)
	}
	return batch.Error()
}
