package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
)

// assets are the streams that all nodes share, buckets among them.
func (b *Bus) assets() []string {
	n := b.names
	return []string{
		n.workStream(), n.dirtyStream(), n.archiveStream(), n.deadStream(), n.timerStream(), n.deltaStream(),
		n.rowStream(n.directory()), n.rowStream(n.catalogs()), n.rowStream(n.snapshots()), n.blobStream(),
	}
}

// Missing lists the shared streams that the servers do not have.
func (b *Bus) Missing(ctx context.Context) (names []string, err error) {
	for _, name := range b.assets() {
		switch _, err := b.streamInfo(ctx, name); {
		case isMissingAsset(err):
			names = append(names, name)
		case err != nil && !isUnknown(err) && !isOffline(err): // no leader, or away: that is another matter
			return names, fmt.Errorf("look for %s: %w", name, err)
		}
	}
	return names, nil
}

// isMissingAsset reports whether the servers do not have a shared stream.
func isMissingAsset(err error) bool {
	return errors.Is(err, events.ErrNoSession) || isNoAsset(err)
}

// Remake makes the shared streams again that are missing, empty, and lists them.
// It leaves the stream of archives alone: without it what became of a cold
// session is unknown, with an empty one the session would not exist, and another could take its id.
func (b *Bus) Remake(ctx context.Context) (made []string, err error) {
	made, err = b.Missing(ctx)
	made = slices.DeleteFunc(made, func(name string) bool { return name == b.names.archiveStream() })
	if err != nil || len(made) == 0 {
		return nil, err
	}
	if !Sleep(ctx, remakeWait) {
		return nil, context.Cause(ctx)
	}
	b.log.Error("shared streams are gone and are made again, empty: what only they held needs a backup", zap.Strings("streams", made))
	return made, b.make(ctx, made)
}
