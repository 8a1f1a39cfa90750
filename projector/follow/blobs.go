package follow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// BlobSweeper removes unreferenced blobs: of erased sessions, of replaced snapshots, of commits that failed. Every
// occurrence of a blob's digest is a reference. A blob is removed after two sweeps without a reference, by any sweepers, where the second
// began at least [blobGrace] after the end of the first. A blob that is stored again counts as another one. A failed sweep removes nothing.
// Where a session cannot be read, the bodies that its commits may refer to stay. The package comment has the protocol. One BlobSweeper is for
// one goroutine.
type BlobSweeper struct {
	b      *bus.Bus
	within time.Duration // how much older than the commit that refers to it a body is at most
	most   int           // suspects of a row
}

// NewBlobSweeper makes a sweeper. It continues where the last one stopped.
func NewBlobSweeper(b *bus.Bus) *BlobSweeper {
	return &BlobSweeper{b: b, within: bus.ReferWithin, most: maxSuspects}
}

// Sweep searches once and returns the number of removed blobs. now is the servers' time. An error may name sessions that cannot be read;
// what they cannot refer to was removed then. [bus.ErrStale]: another sweeper stored its suspects meanwhile, and those blobs stay.
func (s *BlobSweeper) Sweep(ctx context.Context, now time.Time) (removed int, err error) {
	return s.sweep(ctx, now, s.b.Now())
}

// sweep is Sweep with the time of the servers when now was read. Its end is as much later than now as they say.
func (s *BlobSweeper) sweep(ctx context.Context, now, began time.Time) (removed int, err error) {
	rows, err := s.readSuspects(ctx, now)
	if err != nil {
		return 0, err
	}
	found, unread, err := s.unreferenced(ctx)
	if err != nil {
		return 0, err
	}
	end := now.Add(max(s.b.Now().Sub(began), 0))
	var errs []error
	for i := range rows {
		n, err := s.sweepRow(ctx, &rows[i], found[i], now, end)
		removed += n
		if err != nil && !errors.Is(err, bus.ErrStale) {
			return removed, err
		}
		errs = append(errs, err)
	}
	return removed, errors.Join(errors.Join(errs...), s.putEnd(ctx, end), s.unreadError(unread))
}

// unreferenced finds the blobs without a reference, by the row of their suspects, and the sessions that cannot be read. It leaves out
// what these may refer to.
func (s *BlobSweeper) unreferenced(ctx context.Context) (found [suspectRows][]bus.StoredBlob, unread []bus.Unread, err error) {
	if err := s.removeStaleRows(ctx); err != nil {
		return found, nil, err
	}
	stored, err := s.b.Blobs(ctx)
	if err != nil {
		return found, nil, err
	}
	unseen := make(map[string]bool, len(stored))
	for _, blob := range stored {
		unseen[blob.Digest] = true
	}
	if unread, err = s.markAll(ctx, unseen); err != nil {
		return found, nil, err
	}
	for _, blob := range stored {
		if !unseen[blob.Digest] || blob.Digest != "" && slices.ContainsFunc(unread, func(u bus.Unread) bool { return !blob.StoredAt().Before(s.keptSince(u)) }) {
			continue
		}
		i := blob.ID()[0] % suspectRows
		found[i] = append(found[i], blob)
	}
	return found, unread, nil
}

// keptSince is when the oldest body was stored that an unreadable session may refer to.
func (s *BlobSweeper) keptSince(u bus.Unread) time.Time {
	if u.Since.IsZero() {
		return time.Time{}
	}
	return u.Since.Add(-s.within)
}

// unreadError names sessions that cannot be read, and what stays for them.
func (s *BlobSweeper) unreadError(list []bus.Unread) error {
	var errs []error
	for _, u := range list {
		kept := "every body"
		if since := s.keptSince(u); !since.IsZero() {
			kept = "every body since " + since.UTC().Format(time.RFC3339)
		}
		errs = append(errs, fmt.Errorf("%s stays, because session %s cannot be read: restore it, or erase it: %w", kept, u.Session, u.Err))
	}
	return errors.Join(errs...)
}

// markAll removes referenced blobs from unseen, and returns the sessions that cannot be read.
func (s *BlobSweeper) markAll(ctx context.Context, unseen map[string]bool) (unread []bus.Unread, err error) {
	for _, rows := range []bus.Rows{s.b.Snapshots(), s.b.Catalogs()} {
		for value, err := range rows.All(ctx) {
			if err != nil {
				return nil, err
			}
			markReferenced(value, unseen)
			if err := s.markHead(ctx, value, unseen); err != nil {
				return nil, err
			}
		}
	}
	bases := make(map[events.BlobRef]bool)
	for mention, err := range s.b.BlobMentions(ctx) {
		if err != nil {
			return nil, err
		}
		if mention.Unread != nil {
			unread = append(unread, *mention.Unread)
		}
		for _, data := range mention.Data {
			markReferenced(data, unseen)
		}
		if mention.Commit == nil {
			continue
		}
		if ref := projector.BaseOf(mention.Commit); !ref.IsZero() {
			bases[ref] = true
		}
	}
	return unread, s.markBases(ctx, bases, unseen)
}

// markBases marks the references in bases: their segments, and the bodies of their nodes and frames. A shared segment is
// read once.
func (s *BlobSweeper) markBases(ctx context.Context, bases map[events.BlobRef]bool, unseen map[string]bool) error {
	seen := make(map[events.BlobRef]bool)
	read := func(ref events.BlobRef) ([]byte, error) {
		if seen[ref] {
			return nil, nil
		}
		seen[ref] = true
		body, err := s.b.Blob(ctx, ref)
		if unreadable(err) {
			return nil, nil // the session of this base is unreadable
		}
		return body, err
	}
	for ref := range bases {
		err := projector.WalkBase(ref, read, func(p projector.BaseBody) error {
			markReferenced(p.Body, unseen)
			return nil
		})
		if err != nil && !errors.Is(err, events.ErrMalformed) && !errors.Is(err, events.ErrInvalid) {
			return err
		}
	}
	return nil
}

// unreadable reports whether a blob is lost or damaged.
func unreadable(err error) bool {
	return errors.Is(err, bus.ErrNotFound) || errors.Is(err, events.ErrMalformed)
}

// markHead marks the references of a snapshot: its head, which may be a blob, its pages, and their segments.
func (s *BlobSweeper) markHead(ctx context.Context, value []byte, unseen map[string]bool) error {
	var r snapshotRow
	if events.DecodePayload(value, &r) != nil {
		return nil
	}
	head := r.Head
	if !r.Blob.IsZero() {
		var err error
		if head, err = s.b.Blob(ctx, r.Blob); err != nil && !unreadable(err) {
			return err
		}
	}
	markReferenced(head, unseen)
	pages, err := projector.SnapshotPages(head)
	if err != nil {
		return nil //nolint:nilerr // an unreadable snapshot is replaced from the log
	}
	for _, ref := range pages {
		page, err := s.b.Blob(ctx, ref)
		if err != nil && !unreadable(err) {
			return err
		}
		markReferenced(page, unseen)
	}
	return nil
}

// digestLen is the length of a digest: a SHA-256 in hex digits.
const digestLen = 64

// markReferenced removes every digest in data from unseen. Other hex digits may surround a digest.
func markReferenced(data []byte, unseen map[string]bool) {
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

// removeStaleRows removes rows that a paused projector wrote after the erasure of their session, and packs that have it or are not listed.
func (s *BlobSweeper) removeStaleRows(ctx context.Context) error {
	erased := make(map[events.SessionID]bool)
	for id, err := range s.b.Erased(ctx) {
		if err != nil {
			return err
		}
		erased[id] = true
	}
	if err := removeUnlistedPacks(ctx, s.b); err != nil || len(erased) == 0 {
		return err
	}
	for _, rows := range s.b.Projections() {
		for id, err := range rows.Keys(ctx) {
			if err == nil && erased[id] {
				err = s.b.Purge(ctx, id)
			}
			if err != nil {
				return err
			}
		}
	}
	return removeErasedPacked(ctx, s.b, erased)
}
