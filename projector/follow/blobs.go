package follow

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

const (
	// sweepBlobsEvery is how often blobs are looked for that nobody refers to. Every history is read for it.
	sweepBlobsEvery = 12 * time.Hour
	// blobGrace is how long nobody must refer to a blob before it is removed:
	// more than it takes from when it is stored to when something refers to it.
	blobGrace = 12 * time.Hour
)

// Blobs removes blobs that nobody refers to: of erased sessions, of snapshots
// that were replaced, of commits that never landed. A blob is referred to
// wherever its digest stands. It goes where that was nowhere at two looks with
// [blobGrace] between them; a look that fails removes nothing. One Blobs is for one goroutine.
type Blobs struct {
	b        *bus.Bus
	suspects map[bus.StoredBlob]time.Time // since when nobody was seen to refer to them
}

// NewBlobs has not looked yet.
func NewBlobs(b *bus.Bus) *Blobs { return &Blobs{b: b} }

// Sweep looks once and reports how many it removed.
func (s *Blobs) Sweep(ctx context.Context, now time.Time) (removed int, err error) {
	if err := s.leftRows(ctx); err != nil {
		return 0, err
	}
	stored, err := s.b.Blobs(ctx)
	if err != nil {
		return 0, err
	}
	unseen := make(map[string]bool, len(stored))
	for _, blob := range stored {
		unseen[blob.Digest] = true
	}
	if err := s.strike(ctx, unseen); err != nil {
		return 0, err
	}
	suspects := make(map[bus.StoredBlob]time.Time)
	for _, blob := range stored {
		if !unseen[blob.Digest] {
			continue
		}
		since, known := s.suspects[blob]
		if !known {
			since = now
		}
		suspects[blob] = since
	}
	s.suspects = suspects
	for blob, since := range suspects {
		if now.Sub(since) < blobGrace {
			continue
		}
		if err := s.b.DropBlob(ctx, blob); err != nil {
			return removed, err
		}
		removed++
		delete(suspects, blob)
	}
	return removed, nil
}

// strike takes out of unseen what something refers to.
func (s *Blobs) strike(ctx context.Context, unseen map[string]bool) error {
	for _, rows := range []bus.Rows{s.b.Snapshots(), s.b.Catalogs()} {
		for value, err := range rows.All(ctx) {
			if err != nil {
				return err
			}
			strike(value, unseen)
			if err := s.strikeHead(ctx, value, unseen); err != nil {
				return err
			}
		}
	}
	bases := make(map[events.BlobRef]bool)
	for data, err := range s.b.BlobMentions(ctx) {
		if err != nil {
			return err
		}
		strike(data, unseen)
		if ref := baseIn(data); !ref.IsZero() {
			bases[ref] = true
		}
	}
	return s.strikeBases(ctx, bases, unseen)
}

// baseIn is the base that a commit names, as it is stored; the zero reference where it names none.
func baseIn(data []byte) events.BlobRef {
	if !bytes.Contains(data, []byte(events.KindSessionOpened)) {
		return events.BlobRef{}
	}
	c, err := events.Decode(data)
	if err != nil {
		return events.BlobRef{} // what cannot be read keeps nothing but what it names itself
	}
	return projector.BaseOf(c)
}

// strikeBases is for what bases refer to: their pieces, and the bodies of their nodes and frames. A piece that
// several have is read once.
func (s *Blobs) strikeBases(ctx context.Context, bases map[events.BlobRef]bool, unseen map[string]bool) error {
	seen := make(map[events.BlobRef]bool)
	read := func(ref events.BlobRef) ([]byte, error) {
		if seen[ref] {
			return nil, nil
		}
		seen[ref] = true
		body, err := s.b.Blob(ctx, ref)
		if lost(err) {
			return nil, nil // the session that names it cannot be read
		}
		return body, err
	}
	for ref := range bases {
		err := projector.WalkBase(ref, read, func(p projector.Piece) error {
			strike(p.Body, unseen)
			return nil
		})
		if err != nil && !errors.Is(err, events.ErrMalformed) && !errors.Is(err, events.ErrInvalid) {
			return err
		}
	}
	return nil
}

// lost reports whether a blob is gone, or damaged.
func lost(err error) bool {
	return errors.Is(err, bus.ErrNotFound) || errors.Is(err, events.ErrMalformed)
}

// strikeHead is for a snapshot: its head, which may be a blob, refers to pages and segments, and the pages to more segments.
func (s *Blobs) strikeHead(ctx context.Context, value []byte, unseen map[string]bool) error {
	var r row
	if events.DecodePayload(value, &r) != nil {
		return nil
	}
	head := r.Head
	if !r.Blob.IsZero() {
		var err error
		if head, err = s.b.Blob(ctx, r.Blob); err != nil && !lost(err) {
			return err
		}
	}
	strike(head, unseen)
	pages, err := projector.SnapshotPages(head)
	if err != nil {
		return nil //nolint:nilerr // a snapshot that cannot be read is made anew from the log
	}
	for _, ref := range pages {
		page, err := s.b.Blob(ctx, ref)
		if err != nil && !lost(err) {
			return err
		}
		strike(page, unseen)
	}
	return nil
}

// digestLen is the length of a digest: SHA-256 in hexadecimal digits.
const digestLen = 64

// strike takes every digest in data out of unseen. Digits may stand before and behind one.
func strike(data []byte, unseen map[string]bool) {
	digits := 0
	for i, c := range data {
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'f' {
			if digits++; digits >= digestLen {
				delete(unseen, string(data[i+1-digestLen:i+1]))
			}
			continue
		}
		digits = 0
	}
}

// leftRows removes rows that a projector wrote which had slept since before its session was erased.
func (s *Blobs) leftRows(ctx context.Context) error {
	erased := make(map[events.SessionID]bool)
	for id, err := range s.b.Erased(ctx) {
		if err != nil {
			return err
		}
		erased[id] = true
	}
	if len(erased) == 0 {
		return nil
	}
	for _, rows := range []bus.Rows{s.b.Snapshots(), s.b.Catalogs()} {
		for id, err := range rows.Keys(ctx) {
			if err == nil && erased[id] {
				err = s.b.Purge(ctx, id)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
