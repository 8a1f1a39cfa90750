package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
)

// asset is a stream that all nodes share; a bucket is a stream too.
type asset struct {
	name   string                      // of the stream
	memory bool                        // servers keep it in memory: it is gone after a restart
	ensure func(context.Context) error // creates or updates it
}

func (b *Bus) assets() []asset {
	n := b.names
	var list []asset
	shared := []jetstream.StreamConfig{b.workConfig(), b.dirtyConfig(), b.archiveConfig(), b.deadConfig(), b.timerConfig()}
	if b.pluginEvents.Load() {
		shared = append(shared, b.pluginEventConfig())
	}
	for _, cfg := range shared {
		list = append(list, asset{cfg.Name, cfg.Storage == jetstream.MemoryStorage, func(ctx context.Context) error { return b.ensureStream(ctx, cfg) }})
	}
	list = append(list, asset{n.deltaStream(), true, b.ensureDeltas})
	for _, bucket := range []string{n.directory(), n.catalogs(), n.snapshots(), n.index(), n.manifests()} {
		list = append(list, asset{n.rowStream(bucket), false, func(ctx context.Context) error { return b.ensureBucket(ctx, bucket) }})
	}
	return append(list, asset{n.blobStream(), false, b.ensureBlobs})
}

// createAssets creates or updates shared streams. It changes no handle: the bus may be in use.
func (b *Bus) createAssets(ctx context.Context, list []asset) error {
	for _, a := range list {
		if err := a.ensure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// MissingStreams lists the shared streams that the servers do not have.
func (b *Bus) MissingStreams(ctx context.Context) (names []string, err error) {
	for _, a := range b.assets() {
		switch _, err := b.streamInfo(ctx, a.name); {
		case isMissingAsset(err):
			names = append(names, a.name)
		case err != nil && !isUnknown(err) && !isOffline(err): // a stream without a leader, or on servers that are away, exists
			return names, fmt.Errorf("look for %s: %w", a.name, err)
		}
	}
	return names, nil
}

// isMissingAsset reports whether the servers do not have a shared stream.
func isMissingAsset(err error) bool {
	return errors.Is(err, events.ErrNoSession) || isNoAsset(err)
}

// RecreateMissing creates the missing shared streams again, empty, and lists them. It does not create the stream of
// archives: without that stream the state of a cold session is unknown; with an empty one the session would not
// exist, and its id would be free.
func (b *Bus) RecreateMissing(ctx context.Context) (made []string, err error) {
	made, err = b.MissingStreams(ctx)
	made = slices.DeleteFunc(made, func(name string) bool { return name == b.names.archiveStream() })
	if err != nil || len(made) == 0 {
		return nil, err
	}
	if !delay.Sleep(ctx, recreateWait) {
		return nil, context.Cause(ctx)
	}
	missing := slices.DeleteFunc(b.assets(), func(a asset) bool { return !slices.Contains(made, a.name) })
	if slices.ContainsFunc(missing, func(a asset) bool { return !a.memory }) {
		b.log.Error("shared streams are gone and are made again, empty: what only they held needs a backup", zap.Strings("streams", made))
	} else {
		b.log.Info("shared streams in memory are gone, as after a restart of their server, and are made again", zap.Strings("streams", made))
	}
	return made, b.createAssets(ctx, missing)
}
