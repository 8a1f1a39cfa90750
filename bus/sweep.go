package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
)

// blobFresh is how old a stored blob may be that is not stored again when it is
// put. So a blob that nobody referred to for longer is not removed just when
// somebody does.
const blobFresh = time.Hour

// StoredBlob is a blob as it was stored once: stored again, it is another.
type StoredBlob struct {
	Digest  string // empty: pieces of one that was never whole, or is half removed
	content string // names its pieces
}

// Blobs lists every blob that is stored.
func (b *Bus) Blobs(ctx context.Context) ([]StoredBlob, error) {
	pieces, err := b.pieces(ctx) // first: what is being stored has its pieces before it has a name
	if err != nil {
		return nil, fmt.Errorf("list blobs: %w", err)
	}
	infos, err := b.blobs.List(ctx)
	if err = mapError(err); err != nil && !errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("list blobs: %w", err)
	}
	list := make([]StoredBlob, 0, len(infos))
	for _, info := range infos {
		list = append(list, StoredBlob{info.Name, info.NUID})
		delete(pieces, info.NUID)
	}
	for content := range pieces {
		list = append(list, StoredBlob{"", content})
	}
	return list, nil
}

func (b *Bus) pieces(ctx context.Context) (map[string]bool, error) {
	subjects, err := b.subjects(ctx, b.names.blobStream(), b.names.blobPieces("*"))
	found := make(map[string]bool, len(subjects))
	for subject := range subjects {
		found[strings.TrimPrefix(subject, b.names.blobPieces(""))] = true
	}
	return found, err
}

// DropBlob removes a blob, unless it was stored again.
func (b *Bus) DropBlob(ctx context.Context, blob StoredBlob) error {
	if blob.Digest == "" {
		return b.purgeSubject(ctx, b.names.blobStream(), b.names.blobPieces(blob.content))
	}
	return b.dropBlob(ctx, blob.Digest, func(content string) bool { return content == blob.content })
}

// dropBlob removes a blob that has the wanted content. Whoever dies half way leaves pieces without a name.
func (b *Bus) dropBlob(ctx context.Context, digest string, wanted func(content string) bool) error {
	return b.retry(ctx, "remove blob "+digest, func(ctx context.Context) error {
		stream, err := b.js.Stream(ctx, b.names.blobStream())
		var meta *jetstream.RawStreamMsg
		if err == nil {
			meta, err = stream.GetLastMsgForSubject(ctx, b.names.blobMeta(digest))
		}
		if isNoAsset(err) || isMissing(err) {
			return nil
		}
		if err != nil {
			return err
		}
		var info jetstream.ObjectInfo
		if err := json.Unmarshal(meta.Data, &info); err != nil {
			return fmt.Errorf("%w: %w", events.ErrMalformed, err)
		}
		if !wanted(info.NUID) {
			return nil
		}
		// By sequence: who stores it again just now has another.
		if err := stream.DeleteMsg(ctx, meta.Sequence); err != nil && !isMissing(err) {
			return err
		}
		return stream.Purge(ctx, jetstream.WithPurgeSubject(b.names.blobPieces(info.NUID)))
	})
}

// Mentions is everything beside rows that may refer to a blob, as it is
// stored: archives and histories.
func (b *Bus) Mentions(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for id, err := range b.Sessions(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !b.mentionsOf(ctx, id, yield) {
				return
			}
		}
	}
}

// assetPart is some of a stream's messages.
type assetPart struct{ stream, subjects string }

func (b *Bus) mentionsOf(ctx context.Context, id events.SessionID, yield func([]byte, error) bool) bool {
	row, err := b.archived(ctx, id)
	if err != nil {
		yield(nil, err)
		return false
	}
	for _, r := range row.Runs {
		if !yield([]byte(r.Blob.Digest), nil) {
			return false
		}
	}
	for entry, err := range b.Log().Read(ctx, id, 0) {
		switch {
		case errors.Is(err, events.ErrNoSession):
			return true // nobody's any more, or not yet
		case !yield(entry.Data, err) || err != nil:
			return false
		}
	}
	return true
}

// Erased lists the sessions that were erased, in no order.
func (b *Bus) Erased(ctx context.Context) iter.Seq2[events.SessionID, error] {
	return func(yield func(events.SessionID, error) bool) {
		for subject, err := range b.archiveSubjects(ctx, b.names.erasedAll()) {
			if !yield(b.names.erasedSession(subject), err) {
				return
			}
		}
	}
}
