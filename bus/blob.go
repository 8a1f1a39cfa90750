package bus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/bodykey"
)

// PutBlob stores a body under its reference. A body that was stored within the last hour is not stored again. An
// event that refers to the body must be stored within hours: see [Bus.DropBlob]. Errors: [events.ErrTooLarge].
func (b *Bus) PutBlob(ctx context.Context, body []byte) (events.BlobRef, error) {
	ref, err := refOf(body)
	if err != nil {
		return ref, err
	}
	name, stored, err := b.storeBlob(ref.Digest, body)
	if err == nil {
		err = b.putObject(ctx, name, stored)
	}
	return ref, err
}

// putStored is PutBlob for archive files, which have bodies as they are stored.
func (b *Bus) putStored(ctx context.Context, file []byte) (events.BlobRef, error) {
	ref, err := refOf(file)
	if err == nil {
		err = b.putObject(ctx, ref.Digest, file)
	}
	return ref, err
}

func refOf(body []byte) (events.BlobRef, error) {
	if len(body) > events.MaxBlobBytes {
		return events.BlobRef{}, &events.FieldError{
			Field: "blob", Reason: fmt.Sprintf("has %d bytes, limit is %d", len(body), events.MaxBlobBytes), Err: events.ErrTooLarge,
		}
	}
	sum := sha256.Sum256(body)
	return events.BlobRef{Digest: hex.EncodeToString(sum[:]), Size: int64(len(body))}, nil
}

// putObject stores bytes under a name that they determine.
func (b *Bus) putObject(ctx context.Context, name string, data []byte) error {
	if b.lately.has(name, b.Reconnects(), b.Now()) {
		return nil
	}
	began, connection := b.Now(), b.Reconnects()
	err := b.ensureObject(ctx, name, data)
	if err == nil {
		b.lately.add(name, connection, began)
	}
	return err
}

func (b *Bus) ensureObject(ctx context.Context, name string, data []byte) error {
	if info, err := b.blobInfo(ctx, name); err == nil && info.Size == uint64(len(data)) && b.Since(info.ModTime) < blobFresh {
		chunks, err := b.subjects(ctx, b.names.blobStream(), b.names.blobChunks(info.NUID))
		if err == nil && chunks[b.names.blobChunks(info.NUID)] == uint64(info.Chunks) {
			return nil
		}
	}
	return b.withRoom(b.names.blobStream(), len(data), func() error {
		return b.retryWithin(ctx, b.transfer(int64(len(data))), "put blob "+name, func(ctx context.Context) error {
			store, err := b.blobsOver(ctx, b.linkOf(len(data) > largeBytes))
			if err == nil {
				_, err = store.PutBytes(ctx, name, data)
				b.recordStored(ctx, b.names.blobStream(), len(data), err)
			}
			return err
		})
	})
}

// lately is how long a process takes a body for stored that it has stored, or found stored. Catalogues of tools name the same ones again and
// again. It is far below what is left of [ReferWithin].
const lately = time.Minute

// storedLately are the bodies that a process has put within [lately], over the same connection: after another one the store may be another.
type storedLately struct {
	mu         sync.Mutex
	connection uint64
	at         map[string]time.Time // by name
}

// maxStoredLately limits their number. Above it all are forgotten.
const maxStoredLately = 4096

func (s *storedLately) has(name string, connection uint64, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.at[name]
	return ok && s.connection == connection && now.Sub(at) < lately
}

func (s *storedLately) add(name string, connection uint64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.connection != connection || len(s.at) >= maxStoredLately || s.at == nil {
		s.at, s.connection = make(map[string]time.Time), connection
	}
	s.at[name] = at
}

func (s *storedLately) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.at, name)
}

// blobsOver is the object store over a connection.
func (b *Bus) blobsOver(ctx context.Context, l link) (jetstream.ObjectStore, error) {
	if l.nc == b.nc {
		return b.blobs, nil
	}
	return l.js.ObjectStore(ctx, b.names.blobs())
}

// Blob reads a body and checks it against its reference. Errors: [ErrNotFound], [events.ErrMalformed]; a
// [*events.KeyError] where the body may be encrypted with a key that is not here.
func (b *Bus) Blob(ctx context.Context, ref events.BlobRef) ([]byte, error) {
	if err := events.CheckDigest("digest", ref.Digest); err != nil { // servers close a connection that sends a subject of 4 KiB
		return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	names, err := b.blobNames(ref.Digest)
	if err != nil {
		return nil, fmt.Errorf("blob %s: %w", ref.Digest, err)
	}
	body, err := b.bodyUnder(ctx, names, ref)
	if locked := b.bodies.writable(); locked != nil && errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("blob %s: %w", ref.Digest, locked)
	}
	return body, err
}

// bodyUnder is [Bus.Blob] for a body that is stored under one of some names.
func (b *Bus) bodyUnder(ctx context.Context, names []string, ref events.BlobRef) ([]byte, error) {
	for n, began := 1, time.Now(); ; n++ {
		for _, name := range names {
			body, err := b.storedBlob(ctx, name, ref)
			if err != nil {
				b.lately.forget(name) // a put stores it again
			}
			if !errors.Is(err, ErrNotFound) {
				return body, err
			}
		}
		err := b.mayBeStored(ctx, names, time.Since(began))
		if err == nil {
			err = pause(ctx, n)
		}
		if err != nil {
			return nil, fmt.Errorf("blob %s: %w", ref.Digest, err)
		}
	}
}

// mayBeStored decides about a body that reads have not found for some time: [ErrNotFound] where it is missing. Any replica or mirror may have
// answered them; only the leader knows whether the body and its chunks are stored. A bus of [OpenReader] may not ask for a body's chunks: to it
// they are lost after [Config.Timeout].
func (b *Bus) mayBeStored(ctx context.Context, names []string, unknown time.Duration) error {
	lag := b.replicaLag
	if b.replicas == 1 {
		lag = blobMoved
	}
	if unknown <= lag {
		return nil
	}
	for _, name := range names {
		if stored, err := b.isStored(ctx, name); err != nil || stored && unknown <= b.cfg.Timeout {
			return err
		}
	}
	return ErrNotFound
}

// isStored reports whether the leader has the body of a name.
func (b *Bus) isStored(ctx context.Context, name string) (bool, error) {
	stream, meta := b.names.blobStream(), b.names.blobMeta(name)
	if b.reader {
		stored, err := b.subjects(ctx, stream, meta)
		return stored[meta] > 0, err
	}
	msg, err := b.atLeader(ctx, stream, leaderQuery{Last: meta})
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	var info jetstream.ObjectInfo
	if err != nil || json.Unmarshal(msg.Data, &info) != nil || info.Deleted {
		return false, err
	}
	chunks := b.names.blobChunks(info.NUID)
	stored, err := b.subjects(ctx, stream, chunks)
	return stored[chunks] >= uint64(info.Chunks), err
}

// storedBlob reads the body that is stored under a name.
func (b *Bus) storedBlob(ctx context.Context, name string, ref events.BlobRef) ([]byte, error) {
	info, err := b.blobInfo(ctx, name)
	if err != nil {
		return nil, err
	}
	if limit := uint64(max(ref.Size, 0) + int64(bodykey.OverheadBytes)); info.Size > limit { // who reads it has made room for what the reference says
		return nil, fmt.Errorf("blob %s: %w: the reference says %d bytes", ref.Digest, events.ErrMalformed, ref.Size)
	}
	var body []byte
	for try, missing := 1, 0; ; try++ {
		err = b.onceWithin(ctx, b.transfer(ref.Size), func(ctx context.Context) (err error) {
			body, err = b.content(ctx, info)
			return err
		})
		if err == nil {
			break
		}
		if errors.Is(err, ErrNotFound) {
			missing++
		}
		if !isUnknown(err) && !errors.Is(err, ErrNotFound) || missing == blobTries || pause(ctx, try) != nil {
			return nil, fmt.Errorf("blob %s: %w", ref.Digest, err)
		}
	}
	if name != ref.Digest {
		if body, err = b.bodies.keys.Load(body); err != nil {
			return nil, fmt.Errorf("blob %s: %w", ref.Digest, err)
		}
	}
	sum := sha256.Sum256(body)
	if hex.EncodeToString(sum[:]) != ref.Digest {
		return nil, fmt.Errorf("blob %s: %w: digest differs", ref.Digest, events.ErrMalformed)
	}
	return body, nil
}

// content joins the chunks of a body. [ErrNotFound]: the replica that answered lacks some.
func (b *Bus) content(ctx context.Context, info *jetstream.ObjectInfo) ([]byte, error) {
	if limit := uint64(events.MaxBlobBytes + bodykey.OverheadBytes); info.Size > limit {
		return nil, fmt.Errorf("%w: %d bytes, limit is %d", events.ErrMalformed, info.Size, limit)
	}
	body := make([]byte, 0, info.Size)
	for msg, err := range b.messages(ctx, info.Size > largeBytes, b.names.blobStream(), b.names.blobChunks(info.NUID), 1, 0) {
		if err != nil {
			return nil, err
		}
		if body = append(body, msg.Data...); uint64(len(body)) > info.Size {
			return nil, fmt.Errorf("%w: more than its %d bytes", events.ErrMalformed, info.Size)
		}
	}
	if uint64(len(body)) < info.Size {
		return nil, fmt.Errorf("%w: %d of %d bytes", ErrNotFound, len(body), info.Size)
	}
	return body, nil
}

// blobTries bounds the reads of a body that has a description and not all chunks: these may be missing for good. Reads without an answer
// are repeated until ctx ends, as other requests are: a turn must not fail because its servers were away.
const blobTries = 3

// How long a body may be unknown.
const (
	replicaLag = 100 * time.Millisecond // a replica that is behind says that there is none; after it the leader is asked
	blobMoved  = 10 * time.Millisecond  // a body that is stored again has another content a moment later
)

func (b *Bus) blobInfo(ctx context.Context, digest string) (info *jetstream.ObjectInfo, err error) {
	err = b.retry(ctx, "blob "+digest, func(ctx context.Context) (err error) {
		info, err = b.blobs.GetInfo(ctx, digest)
		return err
	})
	return info, err
}

// transfer is the time limit of one try to move a body: a second more for each MiB.
func (b *Bus) transfer(size int64) time.Duration {
	size = min(max(size, 0), events.MaxBlobBytes)
	return b.cfg.Timeout + time.Second*time.Duration(size>>20)
}
