package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
)

// assets are the streams that all nodes share; a bucket is a stream too.
func (b *Bus) assets() []string {
	n := b.names
	return []string{
		n.workStream(), n.dirtyStream(), n.archiveStream(), n.deadStream(), n.timerStream(), n.deltaStream(),
		n.rowStream(n.directory()), n.rowStream(n.catalogs()), n.rowStream(n.snapshots()), n.rowStream(n.manifests()), n.blobStream(),
	}
}

// MissingStreams lists the shared streams that the servers do not have.
func (b *Bus) MissingStreams(ctx context.Context) (names []string, err error) {
	for _, name := range b.assets() {
		switch _, err := b.streamInfo(ctx, name); {
		case isMissingAsset(err):
			names = append(names, name)
		case err != nil && !isUnknown(err) && !isOffline(err): // a stream without a leader, or on servers that are away, exists
			return names, fmt.Errorf("look for %s: %w", name, err)
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
	if !Sleep(ctx, recreateWait) {
		return nil, context.Cause(ctx)
	}
	b.log.Error("shared streams are gone and are made again, empty: what only they held needs a backup", zap.Strings("streams", made))
	return made, b.createAssets(ctx, made)
}
