package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/index"
)

// packSizes are numbers of index rows.
type packSizes struct {
	from int // without a pack, from which on they get one
	gap  int // between packs, from which on they get one, as where the pack of an erased session was
	full int // of a pack
}

// maxPackRead limits the bytes of rows that a pack is made from: a row can have 64 KiB.
const maxPackRead = 16 << 20

// PackIndex makes packs of the index rows that have none, if there are enough of them. The next write of a row makes its copy in a
// pack stale; where every third row of the packs is stale, all are made again. Only rows with the current key of the bus are packed, so that a
// key that is removed takes them along. Any number of nodes may do this: one of them lists its packs.
func PackIndex(ctx context.Context, b *bus.Bus) error {
	return packIndex(ctx, b, packSizes{from: 512, gap: 64, full: index.PackRows})
}

func packIndex(ctx context.Context, b *bus.Bus, sizes packSizes) error {
	rows, ok := b.Index()
	if !ok || b.Writable() != nil {
		return nil
	}
	list, err := rows.Packs(ctx)
	switch {
	case errors.Is(err, events.ErrLocked): // a node with newer keys makes packs
		return nil
	case errors.Is(err, events.ErrMalformed):
		err = rows.RemoveAllPacks(ctx)
		list = &bus.PackList{}
	}
	if err != nil {
		return err
	}
	p := &packer{rows: rows, list: list, sizes: sizes}
	if err = p.run(ctx); errors.Is(err, bus.ErrStale) {
		return nil // another node has made packs, or a session was erased: the next run continues
	}
	return err
}

// packer makes packs.
type packer struct {
	rows   bus.Rows
	sizes  packSizes
	list   *bus.PackList
	kept   []bus.Pack
	closed bool       // the kept ones have more revisions than before
	fresh  []bus.Pack // in the order of their revisions

	batch []bus.PackedRow // of the next pack
	bytes int
	after uint64 // revision before the batch
}

func (p *packer) run(ctx context.Context) error {
	last, count, err := p.rows.Size(ctx)
	if err == nil {
		err = p.forgetMissing(ctx)
	}
	if err != nil {
		return err
	}
	p.kept = slices.Clone(p.keep(count))
	ranges, tail := p.unpacked(p.kept, last), 0
	for _, old := range p.list.Packs[len(p.kept):] {
		tail += int(old.Rows)
	}
	if end := &ranges[len(ranges)-1]; last < end.after+uint64(p.sizes.from) {
		ranges = ranges[:len(ranges)-1]
	} else {
		end.least = tail + p.sizes.from
	}
	if len(ranges) == 0 {
		return nil
	}
	if !p.list.Stored() { // an erasure during this run makes it stale
		if err := p.rows.PutPacks(ctx, p.list); err != nil {
			return err
		}
	}
	for _, r := range ranges {
		if err := p.pack(ctx, r, bus.MaxPacks-len(p.kept)); err != nil {
			return errors.Join(err, p.remove(ctx))
		}
	}
	if len(p.fresh) == 0 && !p.closed {
		return nil
	}
	p.list.Packs = append(p.kept, p.fresh...)
	slices.SortFunc(p.list.Packs, func(a, b bus.Pack) int { return cmp.Compare(a.UpTo, b.UpTo) })
	err = p.rows.PutPacks(ctx, p.list)
	if errors.Is(err, bus.ErrStale) { // after another error the list may have them: a sweep decides
		return errors.Join(err, p.remove(ctx))
	}
	return err
}

// forgetMissing leaves out the listed packs that are not stored, as where a process removed them and died before it wrote the list.
func (p *packer) forgetMissing(ctx context.Context) error {
	stored, err := p.rows.StoredPacks(ctx)
	p.list.Packs = slices.DeleteFunc(p.list.Packs, func(pack bus.Pack) bool { return !stored[pack.Name] })
	return err
}

// keep is the packs that stay: all but a last one that is less than half full. None stays where every third row of them is stale.
func (p *packer) keep(count int64) []bus.Pack {
	old, total := p.list.Packs, int64(0)
	for _, pack := range old {
		total += pack.Rows
	}
	if total > count+count/2+int64(p.sizes.from) {
		return nil
	}
	if n := len(old); n > 0 && old[n-1].Rows < int64(p.sizes.full/2) {
		return old[:n-1]
	}
	return old
}

// span are the rows after a revision, up to another one. They get packs if there are at least as many.
type span struct {
	after, upTo uint64
	least       int
	tail        bool // after all packs
	locked      bool // some have another key
}

// unpacked are the rows that packs do not have. The last span is the one after them.
func (p *packer) unpacked(packs []bus.Pack, last uint64) (list []span) {
	after := uint64(0)
	for _, pack := range packs {
		if pack.After > after {
			list = append(list, span{after: after, upTo: pack.After, least: p.sizes.gap})
		}
		after = pack.UpTo
	}
	return append(list, span{after: after, upTo: last, tail: true})
}

// pack makes packs of rows.
func (p *packer) pack(ctx context.Context, r span, most int) error {
	p.after = r.after
	seen := 0
	for row, err := range p.rows.Between(ctx, r.after, r.upTo, p.list.PackRevisions()) {
		if err != nil {
			return err
		}
		if len(p.fresh) >= most {
			p.batch, p.bytes = nil, 0
			return nil
		}
		if row.OtherKey {
			if len(p.batch) < p.sizes.gap {
				seen -= len(p.batch)
			}
			if err := p.flushLarge(ctx); err != nil {
				return err
			}
			p.after, r.locked = row.Revision, true
			continue
		}
		p.batch, p.bytes, seen = append(p.batch, row), p.bytes+len(row.Value), seen+1
		if len(p.batch) == p.sizes.full || p.bytes >= maxPackRead {
			if err := p.flush(ctx); err != nil {
				return err
			}
		}
	}
	switch {
	case seen == 0 && !r.locked:
		p.close(r)
		return nil
	case seen < r.least:
		p.batch, p.bytes = nil, 0
		return nil
	}
	return p.flushLarge(ctx)
}

// close adds a span without rows between two packs to one of them.
func (p *packer) close(r span) {
	for i := range p.kept {
		switch {
		case r.tail:
		case p.kept[i].UpTo == r.after:
			p.kept[i].UpTo, p.closed = r.upTo, true
			return
		case r.after == 0 && p.kept[i].After == r.upTo:
			p.kept[i].After, p.closed = 0, true
			return
		}
	}
}

// flushLarge stores the batch if it has as many rows as a gap. A smaller one stays without a pack: where nodes with other keys write in turn,
// packs of a few rows would fill the list.
func (p *packer) flushLarge(ctx context.Context) error {
	if len(p.batch) < p.sizes.gap {
		p.batch, p.bytes = nil, 0
		return nil
	}
	return p.flush(ctx)
}

// flush stores the batch as a pack, or as several where it is too large for one.
func (p *packer) flush(ctx context.Context) error {
	if len(p.batch) == 0 {
		return nil
	}
	err := p.store(ctx, p.batch)
	p.batch, p.bytes = nil, 0
	return err
}

func (p *packer) store(ctx context.Context, batch []bus.PackedRow) error {
	value, sessions, err := encodePack(batch)
	if err != nil {
		return err
	}
	if len(value) > maxRowBytes && len(batch) > 1 {
		if err := p.store(ctx, batch[:len(batch)/2]); err != nil {
			return err
		}
		return p.store(ctx, batch[len(batch)/2:])
	}
	pack, err := p.rows.PutPack(ctx, value)
	if err != nil {
		return fmt.Errorf("pack %d index rows: %w", len(batch), err)
	}
	pack.After, pack.UpTo, pack.Rows, pack.Filter = p.after, batch[len(batch)-1].Revision, int64(len(batch)), bus.NewPackFilter(sessions)
	p.fresh, p.after = append(p.fresh, pack), pack.UpTo
	return nil
}

func encodePack(batch []bus.PackedRow) (value []byte, sessions []events.SessionID, err error) {
	b := index.NewPackBuilder()
	for _, stored := range batch {
		sessions = append(sessions, stored.Session)
		row, err := index.Decode(stored.Value)
		if err == nil && row.Session == stored.Session {
			err = b.Add(row, stored.Revision)
		} else {
			b.Gone(stored.Session, stored.Revision)
			continue
		}
		if err != nil {
			b.Gone(stored.Session, stored.Revision)
		}
	}
	value, err = b.Encode()
	return value, sessions, err
}

// remove removes the packs that are not listed.
func (p *packer) remove(ctx context.Context) error {
	var errs []error
	for _, pack := range p.fresh {
		errs = append(errs, p.rows.RemovePack(ctx, pack.Name))
	}
	return errors.Join(errs...)
}
