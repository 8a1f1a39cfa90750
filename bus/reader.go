package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// OpenReader connects to assets that exist and makes or changes none, as an
// auditor must, who may not be allowed to. Of the bus it gives, only what
// reads is of use. Where a shared asset is missing the error is [ErrNotFound].
func OpenReader(ctx context.Context, cfg Config) (*Bus, error) {
	if err := cfg.defaults(); err != nil {
		return nil, fmt.Errorf("open bus: %w", err)
	}
	opts := append([]nats.Option{
		nats.Name(cfg.Name), nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond), nats.Timeout(cfg.Timeout),
	}, cfg.Options...)
	nc, err := nats.Connect(cfg.URL, opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.URL, err)
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(cfg.Timeout))
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("open bus: %w", err)
	}
	b := &Bus{cfg: cfg, names: names{cfg.Prefix}, nc: nc, js: js, log: cfg.Logger.Named("bus")}
	if err := b.find(ctx); err != nil {
		nc.Close()
		return nil, fmt.Errorf("open bus: %w", err)
	}
	return b, nil
}

// find looks up the shared assets that readers use.
func (b *Bus) find(ctx context.Context) error {
	for _, kv := range []struct {
		name string
		into *jetstream.KeyValue
	}{{b.names.directory(), &b.directory}, {b.names.catalogs(), &b.catalogs}, {b.names.snapshots(), &b.snapshots}} {
		err := b.lookup(ctx, kv.name, func(ctx context.Context) (err error) {
			*kv.into, err = b.js.KeyValue(ctx, kv.name)
			return err
		})
		if err != nil {
			return err
		}
	}
	return b.lookup(ctx, b.names.blobs(), func(ctx context.Context) (err error) {
		b.blobs, err = b.js.ObjectStore(ctx, b.names.blobs())
		return err
	})
}

// lookup asks until it is answered: while a cluster elects its leader the server has no answer yet.
func (b *Bus) lookup(ctx context.Context, name string, ask func(context.Context) error) error {
	err := b.retry(ctx, "find "+name, ask)
	if errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return err
}
