package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
)

// maxMessage bounds a message of any stream, header and payload.
const maxMessage = 1 << 20

// AckWait is how long a worker may be silent before its wake goes to another.
const AckWait = 2 * time.Second

func (b *Bus) ensure(ctx context.Context) error {
	if err := b.keepReplicas(ctx); err != nil {
		return err
	}
	if err := b.make(ctx, b.assets()); err != nil {
		return err
	}
	if err := b.findBuckets(ctx); err != nil {
		return err
	}
	if err := b.lookup(ctx, b.names.archiveStream(), b.findArchives); err != nil {
		return err
	}
	return b.hearWays()
}

// keepReplicas has the bus make what it makes with the replicas that shared streams have, where those are
// more than the configuration says: one node that is told less would take them from all others.
func (b *Bus) keepReplicas(ctx context.Context) error {
	for _, name := range b.assets() {
		if name == b.names.deltaStream() { // has one, and does not answer while its server is away
			continue
		}
		err := b.retry(ctx, "look for "+name, func(ctx context.Context) error {
			stream, err := b.js.Stream(ctx, name)
			if err == nil {
				b.replicas = max(b.replicas, stream.CachedInfo().Config.Replicas)
			}
			return err
		})
		if err != nil && !isMissingAsset(err) && !isOffline(err) { // offline: what makes the stream decides
			return err
		}
	}
	return nil
}

// make makes sure of shared streams and buckets, by their names. It changes no
// handle: the bus may be in use.
func (b *Bus) make(ctx context.Context, names []string) error {
	n := b.names
	makers := map[string]func(context.Context) error{
		n.deltaStream(): b.ensureDeltas, n.blobStream(): b.ensureBlobs,
	}
	for _, cfg := range []jetstream.StreamConfig{b.workConfig(), b.dirtyConfig(), b.archiveConfig(), b.deadConfig(), b.timerConfig()} {
		makers[cfg.Name] = func(ctx context.Context) error { return b.ensureStream(ctx, cfg) }
	}
	for _, bucket := range []string{n.directory(), n.catalogs(), n.snapshots()} {
		makers[n.rowStream(bucket)] = func(ctx context.Context) error { return b.ensureBucket(ctx, bucket) }
	}
	for _, name := range names {
		if err := makers[name](ctx); err != nil {
			return err
		}
	}
	return nil
}

// ensureStream creates what is missing. While a cluster elects its leader the server has no answer yet.
func (b *Bus) ensureStream(ctx context.Context, cfg jetstream.StreamConfig) error {
	return b.retry(ctx, "create stream "+cfg.Name, func(ctx context.Context) error {
		_, err := b.js.CreateOrUpdateStream(ctx, cfg)
		return err
	})
}

// ensureDeltas makes the stream of deltas. Where the server is away that has its
// only replica, the stream exists, and nothing is kept in it until that is back.
func (b *Bus) ensureDeltas(ctx context.Context) error {
	err := b.ensureStream(ctx, b.deltaConfig())
	if isOffline(err) {
		b.log.Warn("the stream of deltas is offline: streamed output is not kept meanwhile")
		return nil
	}
	return err
}

// makeStream creates a session's stream, unless the session has one already,
// this one with other settings or another one.
func (b *Bus) makeStream(ctx context.Context, cfg jetstream.StreamConfig) error {
	err := b.retry(ctx, "create stream "+cfg.Name, func(ctx context.Context) error {
		_, err := b.js.CreateStream(ctx, cfg)
		return err
	})
	if errors.Is(err, errHasStream) {
		return nil
	}
	return err
}

func (b *Bus) ensureBucket(ctx context.Context, name string) error {
	return b.retry(ctx, "create bucket "+name, func(ctx context.Context) error {
		_, err := b.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: name, History: 1, Storage: jetstream.FileStorage, Replicas: b.replicas,
		})
		return err
	})
}

func (b *Bus) ensureBlobs(ctx context.Context) error {
	name := b.names.blobs()
	return b.retry(ctx, "create object store "+name, func(ctx context.Context) error {
		_, err := b.js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{
			Bucket: name, Storage: jetstream.FileStorage, Replicas: b.replicas,
		})
		return err
	})
}

// subjects lists the subjects of a stream's messages that match, with how many messages each has.
func (b *Bus) subjects(ctx context.Context, stream, filter string) (list map[string]uint64, err error) {
	err = b.retry(ctx, "list "+filter, func(ctx context.Context) error {
		s, err := b.js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		info, err := s.Info(ctx, jetstream.WithSubjectFilter(filter))
		if err == nil {
			list = info.State.Subjects
		}
		return err
	})
	return list, err
}

// sessionConfig is one hot session's stream: its history, the only truth.
func (b *Bus) sessionConfig(id events.SessionID, name string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        name,
		Subjects:    []string{b.names.sessionAll(id)},
		Storage:     jetstream.FileStorage,
		Replicas:    b.replicas,
		DenyDelete:  true,
		DenyPurge:   true,
		AllowDirect: true,
		MaxMsgSize:  maxMessage,
		RePublish:   &jetstream.RePublish{Source: b.names.sessionAll(id), Destination: b.names.liveAll(id)},
		Metadata:    map[string]string{"lash-format": fmt.Sprint(events.FormatVersion)},
	}
}

// workConfig holds one wake of each session and task: a new one replaces the
// one that is there, is never refused, and no ack of the earlier one touches it.
func (b *Bus) workConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: b.names.workStream(), Subjects: []string{b.names.workAll()},
		Storage: jetstream.FileStorage, Replicas: b.replicas, MaxMsgSize: 1 << 10,
		Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardOld, MaxMsgsPerSubject: 1,
	}
}

// archiveConfig holds what is archived, an entry a session, and what was erased. Leaders answer: a
// replica that is behind would show an older place.
func (b *Bus) archiveConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: b.names.archiveStream(), Subjects: []string{b.names.archiveAll(), b.names.erasedAll()},
		Storage: jetstream.FileStorage, Replicas: b.replicas, MaxMsgSize: maxMessage, MaxMsgsPerSubject: 1,
	}
}

// dirtyConfig coalesces: the newest mark of a session replaces the one before.
// It is a hint that a sweep repairs, so it must not cost a disk write.
func (b *Bus) dirtyConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: b.names.dirtyStream(), Subjects: []string{b.names.dirtyAll()},
		Storage: jetstream.MemoryStorage, Replicas: b.replicas, MaxMsgSize: 1 << 10,
		Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardOld, MaxMsgsPerSubject: 1,
	}
}

// deltaConfig has one replica: every piece of streamed output goes through it.
// While its server is away, who joins late sees less of a reply that is running.
func (b *Bus) deltaConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: b.names.deltaStream(), Subjects: []string{b.names.deltaAll()},
		Storage: jetstream.MemoryStorage, Replicas: 1, MaxMsgSize: maxMessage,
		MaxAge: 10 * time.Minute, Discard: jetstream.DiscardOld, MaxBytes: 256 << 20,
		AllowDirect: true, NoAck: true,
	}
}
