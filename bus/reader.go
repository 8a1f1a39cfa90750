package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// findAssets looks up the shared assets that readers use.
func (b *Bus) findAssets(ctx context.Context) error {
	b.reader = true
	if err := b.findBuckets(ctx); err != nil {
		return err
	}
	if err := b.findIndex(ctx); err != nil && !errors.Is(err, ErrNotFound) { // a store that is older than the index has none
		return err
	}
	err := b.lookup(ctx, b.names.archiveStream(), b.findArchives)
	if errors.Is(err, ErrNotFound) { // a store that is older than the archives has none
		return nil
	}
	b.learnReplicas()
	return err
}

// findBuckets sets the handles of the buckets, before the bus is in use.
func (b *Bus) findBuckets(ctx context.Context) error {
	for _, kv := range []struct {
		name string
		into *jetstream.KeyValue
	}{{b.names.directory(), &b.directory}, {b.names.catalogs(), &b.catalogs}, {b.names.snapshots(), &b.snapshots}} {
		err := b.lookup(ctx, kv.name, func(ctx context.Context) error {
			found, err := b.js.KeyValue(ctx, kv.name)
			if err == nil {
				*kv.into = found
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return b.lookup(ctx, b.names.blobs(), func(ctx context.Context) error {
		found, err := b.js.ObjectStore(ctx, b.names.blobs())
		if err == nil {
			b.blobs = found
		}
		return err
	})
}

// findManifests sets the handle that only nodes need: a store that is older than it can still be read.
func (b *Bus) findManifests(ctx context.Context) error {
	return b.lookup(ctx, b.names.manifests(), func(ctx context.Context) error {
		found, err := b.js.KeyValue(ctx, b.names.manifests())
		if err == nil {
			b.manifests = found
		}
		return err
	})
}

func (b *Bus) findIndex(ctx context.Context) error {
	return b.lookup(ctx, b.names.index(), func(ctx context.Context) error {
		found, err := b.js.KeyValue(ctx, b.names.index())
		if err == nil {
			b.index = found
		}
		return err
	})
}

func (b *Bus) findArchives(ctx context.Context) error {
	found, err := b.js.Stream(ctx, b.names.archiveStream())
	if err == nil {
		b.archives = found
	}
	return err
}

// learnReplicas raises the replicas of the streams that a reader makes, as it makes a lost or a cold session hot, to those of the shared ones.
func (b *Bus) learnReplicas() {
	if b.archives != nil {
		b.replicas = max(b.replicas, b.archives.CachedInfo().Config.Replicas)
	}
}

// lookup repeats a request until it is answered: while a cluster elects its leader the server has no answer.
func (b *Bus) lookup(ctx context.Context, name string, find func(context.Context) error) error {
	err := b.retry(ctx, "find "+name, find)
	if isNoAsset(err) {
		return fmt.Errorf("find %s: %w", name, ErrNotFound)
	}
	return err
}
