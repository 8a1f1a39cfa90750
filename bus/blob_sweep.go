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

// blobFresh is the age up to which a stored blob is not stored again. An older one is stored again when it is put. So
// the sweep, which removes unreferenced blobs that are older, does not remove one that is just being referred to.
const blobFresh = time.Hour

// StoredBlob is one storage of a blob: the same body stored again is another one.
type StoredBlob struct {
	Digest  string // empty: chunks without a description
	name    string // under which it is stored
	content string // names its chunks
}

// Blobs lists every stored blob, without those whose key is not here.
func (b *Bus) Blobs(ctx context.Context) ([]StoredBlob, error) {
	chunks, err := b.contents(ctx) // first: a blob gets its chunks before its description
	if err != nil {
		return nil, fmt.Errorf("list blobs: %w", err)
	}
	infos, err := b.blobs.List(ctx)
	if err = mapError(err); err != nil && !errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("list blobs: %w", err)
	}
	list := make([]StoredBlob, 0, len(infos))
	for _, info := range infos {
		if digest, ok := b.blobDigest(info.Name); ok {
			list = append(list, StoredBlob{digest, info.Name, info.NUID})
		}
		delete(chunks, info.NUID)
	}
	for content := range chunks {
		list = append(list, StoredBlob{"", "", content})
	}
	return list, nil
}

func (b *Bus) contents(ctx context.Context) (map[string]bool, error) {
	subjects, err := b.subjects(ctx, b.names.blobStream(), b.names.blobChunks("*"))
	found := make(map[string]bool, len(subjects))
	for subject := range subjects {
		found[strings.TrimPrefix(subject, b.names.blobChunks(""))] = true
	}
	return found, err
}

// DropBlob removes a blob, unless it was stored again.
func (b *Bus) DropBlob(ctx context.Context, blob StoredBlob) error {
	if blob.Digest == "" {
		return b.purgeSubject(ctx, b.names.blobStream(), b.names.blobChunks(blob.content))
	}
	if err := events.CheckDigest("digest", blob.Digest); err != nil {
		return err
	}
	return b.dropBlob(ctx, blob.name, func(content string) bool { return content == blob.content })
}

// dropBlob removes the blob of a name if its content is wanted. A process that dies half way leaves chunks without
// a description.
func (b *Bus) dropBlob(ctx context.Context, name string, wanted func(content string) bool) error {
	return b.retry(ctx, "remove blob "+name, func(ctx context.Context) error {
		stream, err := b.js.Stream(ctx, b.names.blobStream())
		var meta *jetstream.RawStreamMsg
		if err == nil {
			meta, err = stream.GetLastMsgForSubject(ctx, b.names.blobMeta(name))
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
		// By sequence: the description of a body that is stored again has another one.
		if err := stream.DeleteMsg(ctx, meta.Sequence); err != nil && !isMissing(err) {
			return err
		}
		return stream.Purge(ctx, jetstream.WithPurgeSubject(b.names.blobChunks(info.NUID)))
	})
}

// BlobMentions yields everything except rows that may refer to a blob: the digests in archive entries, and the stored
// commits of histories with their decrypted payloads. Errors: a [*events.KeyError] where a payload cannot be read.
func (b *Bus) BlobMentions(ctx context.Context) iter.Seq2[Mention, error] {
	return func(yield func(Mention, error) bool) {
		for id, err := range b.Sessions(ctx) {
			if err != nil {
				yield(Mention{}, err)
				return
			}
			if !b.mentionsIn(ctx, id, yield) {
				return
			}
		}
	}
}

func (b *Bus) mentionsIn(ctx context.Context, id events.SessionID, yield func(Mention, error) bool) bool {
	row, err := b.readEntry(ctx, id)
	if err != nil {
		yield(Mention{}, err)
		return false
	}
	for _, r := range row.Runs {
		if !yield(Mention{Data: [][]byte{[]byte(r.Blob.Digest)}}, nil) {
			return false
		}
	}
	for entry, err := range b.Log().Read(ctx, id, 0) {
		switch {
		case errors.Is(err, events.ErrNoSession):
			return true // erased or not created yet
		case err != nil:
			yield(Mention{}, err)
			return false
		}
		m, err := b.mentions(entry)
		if !yield(m, err) || err != nil {
			return false
		}
	}
	return true
}

// Mention is text that may name blobs by their digests.
type Mention struct {
	Data   [][]byte
	Commit *events.Commit // nil for an archive entry
}

// mentions are the stored commit, and what of it is encrypted.
func (b *Bus) mentions(e events.Entry) (Mention, error) {
	m := Mention{Data: [][]byte{e.Data}, Commit: e.Commit}
	if id := e.Commit.Locked(); id != 0 {
		return m, fmt.Errorf("sequence %d of %s: %w", e.Seq, e.Commit.Session, &events.KeyError{ID: id})
	}
	for i := range e.Commit.Events {
		ev := &e.Commit.Events[i]
		if ev.Encrypted == nil {
			continue
		}
		body := ev.Raw
		if ev.Payload != nil {
			var err error
			if body, err = events.EncodePayload(ev.Payload); err != nil {
				return m, err
			}
		}
		m.Data = append(m.Data, body)
	}
	return m, nil
}

// Erased lists the erased sessions, in no order.
func (b *Bus) Erased(ctx context.Context) iter.Seq2[events.SessionID, error] {
	return func(yield func(events.SessionID, error) bool) {
		for subject, err := range b.archiveSubjects(ctx, b.names.erasedAll()) {
			if id, ok := b.names.parseErased(subject); (ok || err != nil) && !yield(id, err) {
				return
			}
		}
	}
}
