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
func (b *Bus) find(ctx context.Context) (err error) {
	if b.directory, err = b.js.KeyValue(ctx, b.names.directory()); err != nil {
		return findError(b.names.directory(), err)
	}
	if b.catalogs, err = b.js.KeyValue(ctx, b.names.catalogs()); err != nil {
		return findError(b.names.catalogs(), err)
	}
	if b.snapshots, err = b.js.KeyValue(ctx, b.names.snapshots()); err != nil {
		return findError(b.names.snapshots(), err)
	}
	if b.blobs, err = b.js.ObjectStore(ctx, b.names.blobs()); err != nil {
		return findError(b.names.blobs(), err)
	}
	return nil
}

func findError(name string, err error) error {
	if errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("%s: %w: %w", name, ErrNotFound, err)
	}
	return fmt.Errorf("%s: %w", name, mapError(err))
}
