package bus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/bodykey"
)

// A pack has the index rows of many sessions in one value, in the table of the index itself: where the table is lost, or an older one is
// restored, so are its packs. The list of packs is a value too. Their keys are no ids of sessions.
//
//	packer                                          erasure or redaction of a session
//	reads the list
//	reads rows, stores packs
//	                                                removes or replaces the row
//	                                                removes the packs that may have the session
//	                                                writes the list
//	writes the list: [ErrStale], removes its packs
//
// A pack that is listed and missing is as good as none: its rows are read. One that is stored and not listed, as of a packer that died, is
// read by no search, and the next packer that lists packs removes it, or a sweep.
const (
	// MaxPacks limits the list of packs, whose filters of sessions take 2 KB each. Rows above that are read one by one.
	MaxPacks = 400
	// maxListedRows is more than a pack has.
	maxListedRows = 1 << 12

	packList   = "=packs"
	packPrefix = "=pack-"
)

func isPackKey(key events.SessionID) bool { return strings.HasPrefix(string(key), "=") }

// Pack names a pack, and the rows that it has: those that are newer than one revision, up to another one.
type Pack struct {
	Name     string `msgpack:"n"`
	After    uint64 `msgpack:"a"`
	UpTo     uint64 `msgpack:"u"`
	Revision uint64 `msgpack:"t"` // of the pack itself
	Rows     int64  `msgpack:"r"`
	Filter   []byte `msgpack:"f"` // of the sessions, see [PackFilter]
}

// PackList are the packs of the index, sorted by the revisions of the rows that they have. No two have rows of the same revisions.
type PackList struct {
	Packs   []Pack `msgpack:"p"`
	Changes int64  `msgpack:"c"` // counts its writes, so that no two values are equal

	revision uint64
}

// Packs reads the list of packs, which is empty where there is none. Errors: a [*events.KeyError]; [events.ErrMalformed].
func (r Rows) Packs(ctx context.Context) (*PackList, error) {
	row, err := r.get(ctx, packList)
	return packsOf(row, err)
}

func packsOf(row Row, err error) (*PackList, error) {
	list := &PackList{revision: row.Revision}
	if err == nil && row.Revision != 0 {
		err = events.DecodePayload(row.Value, list)
	}
	if err == nil {
		err = list.check()
	}
	return list, err
}

// check refuses a list that no packer writes: a reader reserves memory for the rows of all packs, and reads the table between them.
func (l *PackList) check() error {
	if len(l.Packs) > MaxPacks {
		return fmt.Errorf("%w: the list has %d packs, limit is %d", events.ErrMalformed, len(l.Packs), MaxPacks)
	}
	end := uint64(0)
	for i, p := range l.Packs {
		if p.Rows < 0 || p.Rows > maxListedRows || p.After < end || p.UpTo < p.After {
			return fmt.Errorf("%w: pack %d of the list has %d rows, those after revision %d up to %d", events.ErrMalformed, i, p.Rows, p.After, p.UpTo)
		}
		end = p.UpTo
	}
	return nil
}

// PackRevisions are the revisions of the packs themselves, sorted.
func (l *PackList) PackRevisions() []uint64 {
	list := make([]uint64, len(l.Packs))
	for i, p := range l.Packs {
		list[i] = p.Revision
	}
	slices.Sort(list)
	return list
}

// Stored reports whether the list is stored.
func (l *PackList) Stored() bool { return l.revision != 0 }

// PutPacks replaces the list that was read, and removes the packs of the table that it does not have. [ErrStale]: another
// process wrote the list meanwhile.
func (r Rows) PutPacks(ctx context.Context, list *PackList) error {
	list.Changes++
	value, err := events.EncodePayload(list)
	if err != nil {
		return err
	}
	if list.revision, err = r.put(ctx, packList, value, list.revision); err != nil {
		return err
	}
	return r.removeUnlisted(ctx, list)
}

// StoredPacks are the names of the packs in the table, listed or not.
func (r Rows) StoredPacks(ctx context.Context) (map[string]bool, error) {
	bucket := r.kv.Bucket()
	all, err := r.b.subjects(ctx, r.b.names.rowStream(bucket), r.b.names.rows(bucket))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", bucket, err)
	}
	list := make(map[string]bool)
	for subject := range all {
		if key, ok := r.b.names.parseRow(bucket, subject); ok && strings.HasPrefix(string(key), packPrefix) {
			list[string(key)] = true
		}
	}
	return list, nil
}

// removeUnlisted removes the packs that a list does not have, as those of a packer that died.
func (r Rows) removeUnlisted(ctx context.Context, list *PackList) error {
	stored, err := r.StoredPacks(ctx)
	if err != nil {
		return err
	}
	for _, p := range list.Packs {
		delete(stored, p.Name)
	}
	for name := range stored {
		if err := r.RemovePack(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// RemoveAllPacks removes the list and all packs. Packers that run fail with [ErrStale].
func (r Rows) RemoveAllPacks(ctx context.Context) error {
	if err := r.removeUnlisted(ctx, &PackList{}); err != nil {
		return err
	}
	return r.RemovePack(ctx, packList)
}

// PutPack stores a pack under a new name. No search reads it before the list has it.
func (r Rows) PutPack(ctx context.Context, value []byte) (p Pack, err error) {
	p.Name = packPrefix + rand.Text()
	p.Revision, err = r.put(ctx, events.SessionID(p.Name), value, 0)
	return p, err
}

// Pack reads a pack; nil for one that is missing or damaged, or whose key is not here.
func (r Rows) Pack(ctx context.Context, name string) ([]byte, error) {
	bucket, l := r.kv.Bucket(), r.b.linkOf(true)
	var stored []byte
	err := r.b.retry(ctx, fmt.Sprintf("get %s/%s", bucket, name), func(ctx context.Context) error {
		found, err := jetstreamext.GetLastMsgsFor(ctx, l.js, r.b.names.rowStream(bucket), []string{r.b.names.row(bucket, events.SessionID(name))})
		if err != nil {
			return err
		}
		for msg, err := range wholeBatch(found) {
			if err != nil {
				return err
			}
			stored = msg.Data
		}
		return nil
	})
	if errors.Is(err, ErrNotFound) || err == nil && stored == nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	row, err := r.decode(events.SessionID(name), stored, 0)
	if errors.Is(err, events.ErrLocked) || errors.Is(err, events.ErrMalformed) {
		return nil, nil
	}
	return row.Value, err
}

// RemovePack removes a pack.
func (r Rows) RemovePack(ctx context.Context, name string) error {
	bucket := r.kv.Bucket()
	return r.b.purgeSubject(ctx, r.b.names.rowStream(bucket), r.b.names.row(bucket, events.SessionID(name)))
}

// RemovePacksOf removes the packs that may have a session, after its index row was removed or replaced. The list is
// written also where no pack has the session, so that a packer that has read the row before cannot list its pack. Without a list nothing is
// written: a packer makes one before it reads rows. RemovePacksOf may be repeated, by any process.
func (b *Bus) RemovePacksOf(ctx context.Context, session events.SessionID) error {
	rows, ok := b.Index()
	if !ok {
		return nil
	}
	for try := 1; ; try++ {
		err := rows.removePacksOf(ctx, session)
		if !errors.Is(err, ErrStale) {
			return err
		}
		if pause(ctx, try) != nil {
			return fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

func (r Rows) removePacksOf(ctx context.Context, session events.SessionID) error {
	list, err := packsOf(r.atLeader(ctx, packList)) // a replica that is behind may have no list yet
	if errors.Is(err, events.ErrLocked) || errors.Is(err, events.ErrMalformed) {
		return r.RemoveAllPacks(ctx)
	}
	if err != nil || !list.Stored() {
		return err
	}
	kept := list.Packs[:0]
	for _, p := range list.Packs {
		if !PackFilter(p.Filter).Has(session) {
			kept = append(kept, p)
			continue
		}
		if err := r.RemovePack(ctx, p.Name); err != nil { // before the list: a repetition finds it
			return err
		}
	}
	list.Packs = kept
	return r.PutPacks(ctx, list)
}

// Size is the newest revision of the table, and about how many rows it has.
func (r Rows) Size(ctx context.Context) (last uint64, rows int64, err error) {
	info, err := r.b.streamInfo(ctx, r.b.names.rowStream(r.kv.Bucket()))
	if err != nil {
		return 0, 0, err
	}
	return info.State.LastSeq, int64(info.State.Msgs), nil //nolint:gosec // far below
}

// PackedRow is a row of the index with what a packer needs.
type PackedRow struct {
	Session  events.SessionID
	Revision uint64
	Value    []byte // nil: the session has no row any more, or its key is not here
	OtherKey bool   // encrypted with a key that is not the current one of this bus
}

// Between reads the rows that were written after a revision, up to another one, in the order of the writes. Removed rows that left
// a mark are among them. At the revisions of packs, which are sorted, there is no row: they are not read.
func (r Rows) Between(ctx context.Context, after, upTo uint64, packs []uint64) iter.Seq2[PackedRow, error] {
	return func(yield func(PackedRow, error) bool) {
		for _, pack := range packs {
			if pack <= after || pack > upTo {
				continue
			}
			for row, err := range r.between(ctx, after, pack-1) {
				if !yield(row, err) || err != nil {
					return
				}
			}
			after = pack
		}
		r.between(ctx, after, upTo)(yield)
	}
}

func (r Rows) between(ctx context.Context, after, upTo uint64) iter.Seq2[PackedRow, error] {
	return func(yield func(PackedRow, error) bool) {
		bucket := r.kv.Bucket()
		for msg, err := range r.b.messagesTo(ctx, true, r.b.names.rowStream(bucket), ">", after+1, upTo, 0) {
			if err != nil {
				yield(PackedRow{}, fmt.Errorf("read %s: %w", bucket, err))
				return
			}
			session, ok := r.b.names.parseRow(bucket, msg.Subject)
			if !ok || isPackKey(session) {
				continue
			}
			row := PackedRow{Session: session, Revision: msg.Sequence, OtherKey: !r.b.isCurrent(msg.Data)}
			if msg.Header.Get("KV-Operation") == "" {
				stored, err := r.decode(session, msg.Data, msg.Sequence)
				if err != nil && !errors.Is(err, events.ErrLocked) && !errors.Is(err, events.ErrMalformed) {
					yield(PackedRow{}, err)
					return
				}
				row.Value = stored.Value
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// isCurrent reports whether a stored body is plain, or encrypted with the key that this bus encrypts with.
func (b *Bus) isCurrent(stored []byte) bool {
	id := bodykey.KeyOfStored(stored)
	return id == 0 || b.bodies.keys != nil && id == b.bodies.keys.Current()
}
