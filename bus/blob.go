package bus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
)

// PutBlob stores a body under its reference. A body that was stored within the last hour is not stored again. An
// event that refers to the body must be stored within hours: see [Bus.DropBlob]. Errors: [events.ErrTooLarge].
func (b *Bus) PutBlob(ctx context.Context, body []byte) (events.BlobRef, error) {
	sum := sha256.Sum256(body)
	ref := events.BlobRef{Digest: hex.EncodeToString(sum[:]), Size: int64(len(body))}
	if len(body) > events.MaxBlobBytes {
		return events.BlobRef{}, &events.FieldError{
			Field: "blob", Reason: fmt.Sprintf("has %d bytes, limit is %d", len(body), events.MaxBlobBytes), Err: events.ErrTooLarge,
		}
	}
	if info, err := b.blobInfo(ctx, ref.Digest); err == nil && info.Size == uint64(len(body)) && time.Since(info.ModTime) < blobFresh {
		chunks, err := b.subjects(ctx, b.names.blobStream(), b.names.blobChunks(info.NUID))
		if err == nil && chunks[b.names.blobChunks(info.NUID)] == uint64(info.Chunks) {
			return ref, nil
		}
	}
	err := b.retryWithin(ctx, b.transfer(ref.Size), "put blob "+ref.Digest, func(ctx context.Context) error {
		store, err := b.blobsOver(ctx, b.linkOf(len(body) > bulkBytes))
		if err == nil {
			_, err = store.PutBytes(ctx, ref.Digest, body)
		}
		return err
	})
	return ref, err
}

// blobsOver is the object store over a connection.
func (b *Bus) blobsOver(ctx context.Context, l link) (jetstream.ObjectStore, error) {
	if l.nc == b.nc {
		return b.blobs, nil
	}
	return l.js.ObjectStore(ctx, b.names.blobs())
}

// Blob reads a body and checks it against its reference. Errors: [ErrNotFound], [events.ErrMalformed].
func (b *Bus) Blob(ctx context.Context, ref events.BlobRef) ([]byte, error) {
	info, err := b.blobInfo(ctx, ref.Digest)
	if err != nil {
		return nil, err
	}
	var body []byte
	for try := 1; ; try++ {
		err = b.onceWithin(ctx, b.transfer(ref.Size), func(ctx context.Context) (err error) {
			body, err = b.content(ctx, info)
			return err
		})
		if err == nil {
			break
		}
		if !isUnknown(err) && !errors.Is(err, ErrNotFound) || try == blobTries || pause(ctx, try) != nil {
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
	if info.Size > events.MaxBlobBytes {
		return nil, fmt.Errorf("%w: %d bytes, limit is %d", events.ErrMalformed, info.Size, events.MaxBlobBytes)
	}
	body := make([]byte, 0, info.Size)
	for msg, err := range b.messages(ctx, info.Size > bulkBytes, b.names.blobStream(), b.names.blobChunks(info.NUID), 1, 0) {
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

// blobTries bounds the reads of a body that has a description: its chunks may be missing for good, and no answer says
// so.
const blobTries = 3

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
