package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
)

// maxMessage bounds a message of any stream, header and payload, in bytes.
const maxMessage = 1 << 20

// AckWait is how long a worker may be silent before its wake is redelivered.
const AckWait = 2 * time.Second

func (b *Bus) ensure(ctx context.Context) error {
	if err := b.readReplicas(ctx); err != nil {
		return err
	}
	if err := b.createAssets(ctx, b.assets()); err != nil {
		return err
	}
	if err := b.findBuckets(ctx); err != nil {
		return err
	}
	if err := b.lookup(ctx, b.names.archiveStream(), b.findArchives); err != nil {
		return err
	}
	if err := b.findManifests(ctx); err != nil {
		return err
	}
	if err := b.findIndex(ctx); err != nil {
		return err
	}
	if err := b.agreeKeys(ctx); err != nil {
		return err
	}
	b.subscribeRemovals()
	return b.subscribePriorities()
}

// readReplicas raises the bus's replicas to those of the shared streams: a node that is configured with fewer would
// lower them for all others.
func (b *Bus) readReplicas(ctx context.Context) error {
	for _, a := range b.assets() {
		if a.name == b.names.deltaStream() { // has one replica, and does not answer while its server is away
			continue
		}
		err := b.retry(ctx, "look for "+a.name, func(ctx context.Context) error {
			stream, err := b.js.Stream(ctx, a.name)
			if err == nil {
				b.replicas = max(b.replicas, stream.CachedInfo().Config.Replicas)
			}
			return err
		})
		if err != nil && !isMissingAsset(err) && !isOffline(err) { // if it is offline, createAssets decides
			return err
		}
	}
	return nil
}

// ensureStream creates or updates a stream. While a cluster elects its leader the server has no answer.
func (b *Bus) ensureStream(ctx context.Context, cfg jetstream.StreamConfig) error {
	return b.retry(ctx, "create stream "+cfg.Name, func(ctx context.Context) error {
		_, err := b.js.CreateOrUpdateStream(ctx, cfg)
		return err
	})
}

// ensureDeltas creates the stream of deltas. If the server with its only replica is away, the stream exists, and
// stores nothing until that server is back.
func (b *Bus) ensureDeltas(ctx context.Context) error {
	err := b.ensureStream(ctx, b.deltaConfig())
	if isOffline(err) {
		b.log.Warn("the stream of deltas is offline: streamed output is not kept meanwhile")
		return nil
	}
	return err
}

// makeStream creates a session's stream, unless the session already has one, of these or other settings or of another
// name.
func (b *Bus) makeStream(ctx context.Context, cfg jetstream.StreamConfig) error {
	_, err := b.makeStreamAt(ctx, cfg)
	return err
}

// makeStreamAt is makeStream that returns when the server made the stream; zero where there was one.
func (b *Bus) makeStreamAt(ctx context.Context, cfg jetstream.StreamConfig) (created time.Time, err error) {
	err = b.retry(ctx, "create stream "+cfg.Name, func(ctx context.Context) error {
		stream, err := b.js.CreateStream(ctx, cfg)
		if err == nil {
			created = stream.CachedInfo().Created
		}
		return err
	})
	if errors.Is(err, errHasStream) {
		err = nil
	}
	return created, err
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

// subjects lists the subjects of a stream's messages that match, with the number of messages of each.
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

// sessionConfig is one hot session's stream.
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

// workConfig is the work queue, with one wake of each key: a session, by its class, or a task. A new wake replaces the earlier one and is
// never refused. An ack of the earlier one has no effect on it.
func (b *Bus) workConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: b.names.workStream(), Subjects: []string{b.names.workAll()},
		Storage: jetstream.FileStorage, Replicas: b.replicas, MaxMsgSize: 1 << 10,
		Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardOld, MaxMsgsPerSubject: 1,
	}
}

// archiveConfig is the stream of archive entries, one per session, and of erased marks. Leaders answer: a replica
// that is behind would return an older entry.
func (b *Bus) archiveConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: b.names.archiveStream(), Subjects: []string{b.names.archiveAll(), b.names.erasedAll()},
		Storage: jetstream.FileStorage, Replicas: b.replicas, MaxMsgSize: maxMessage, MaxMsgsPerSubject: 1,
	}
}

// dirtyConfig keeps the newest mark of each session. A mark is a hint that a sweep repairs, so it must not cost a
// disk write.
func (b *Bus) dirtyConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: b.names.dirtyStream(), Subjects: []string{b.names.dirtyAll()},
		Storage: jetstream.MemoryStorage, Replicas: b.replicas, MaxMsgSize: 1 << 10,
		Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardOld, MaxMsgsPerSubject: 1,
	}
}

// deltaConfig has one replica, as it takes every delta of streamed output. While its server is away, a client that
// joins late sees less of a running reply.
func (b *Bus) deltaConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: b.names.deltaStream(), Subjects: []string{b.names.deltaAll()},
		Storage: jetstream.MemoryStorage, Replicas: 1, MaxMsgSize: maxMessage,
		MaxAge: 10 * time.Minute, Discard: jetstream.DiscardOld, MaxBytes: 256 << 20,
		AllowDirect: true, NoAck: true,
	}
}
