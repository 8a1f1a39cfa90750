package follow

import (
	"context"
	"errors"
	"math"
	"sync"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/index"
)

// Candidates are the sessions with an index row, each with its row where it may match a plan, and nil where it does not match. The rows have no
// words. A session that is not among them has no usable row: its history decides. The packs of rows are read in place of what they have.
func Candidates(ctx context.Context, b *bus.Bus, plan *index.Plan) (map[events.SessionID]*index.Row, error) {
	rows, ok := b.Index()
	if !ok {
		return map[events.SessionID]*index.Row{}, nil
	}
	list, err := rows.Packs(ctx)
	if errors.Is(err, events.ErrLocked) || errors.Is(err, events.ErrMalformed) {
		list, err = &bus.PackList{}, nil
	}
	if err != nil {
		return nil, err
	}
	c := &candidates{rows: rows, plan: plan}
	size := int64(0)
	for _, p := range list.Packs {
		size += p.Rows
	}
	c.found = make(map[events.SessionID]candidate, size)
	if len(list.Packs) == 0 {
		err = c.all(ctx)
	} else {
		c.packs = list.PackRevisions()
		err = c.packed(ctx, list.Packs)
	}
	return c.list(), err
}

// candidate is what the newest known write of a row says.
type candidate struct {
	revision uint64
	gone     bool // the session has no usable row
	may      bool
	row      *index.Row // where it may match. It shares no memory with a pack: a search has as many as packsAtOnce at a time
}

// candidates are the rows that are read so far. The newest write of a session counts.
type candidates struct {
	rows  bus.Rows
	plan  *index.Plan
	packs []uint64 // revisions of all packs, sorted

	mu    sync.Mutex
	found map[events.SessionID]candidate
}

func (c *candidates) addLocked(session events.SessionID, one candidate) {
	if have, ok := c.found[session]; !ok || have.revision <= one.revision {
		c.found[session] = one
	}
}

func (c *candidates) list() map[events.SessionID]*index.Row {
	out := make(map[events.SessionID]*index.Row, len(c.found))
	for id, one := range c.found {
		switch {
		case one.gone:
		case !one.may:
			out[id] = nil
		default:
			out[id] = one.row
		}
	}
	return out
}

// all reads every row. Damaged rows and those of other versions are left out. A row that was written during the read comes twice: the session may
// match if one of them does.
func (c *candidates) all(ctx context.Context) error {
	return EachIndexRow(c.rows.Values(ctx), func() func(*index.Row) {
		var buf []byte
		return func(row *index.Row) {
			may := false
			may, buf = c.plan.May(row, buf)
			row.Words = nil
			c.mu.Lock()
			defer c.mu.Unlock()
			if !c.found[row.Session].may {
				c.found[row.Session] = candidate{may: may, row: row}
			}
		}
	})
}

// packsAtOnce limits the packs that are read and decoded at a time.
const packsAtOnce = 4

// packed reads packs, and the rows between and after them.
func (c *candidates) packed(ctx context.Context, packs []bus.Pack) error {
	usable := make([]bool, len(packs))
	errs := make([]error, len(packs)+1)
	slots := make(chan struct{}, packsAtOnce)
	var wait sync.WaitGroup
	wait.Go(func() { errs[len(packs)] = c.between(ctx, packs[len(packs)-1].UpTo, math.MaxUint64) })
	for i := range packs {
		slots <- struct{}{}
		wait.Go(func() { // ends with its pack
			defer func() { <-slots }()
			usable[i], errs[i] = c.pack(ctx, packs[i].Name)
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	after := uint64(0)
	for i, p := range packs {
		if !usable[i] {
			continue
		}
		if p.After > after {
			if err := c.between(ctx, after, p.After); err != nil {
				return err
			}
		}
		after = p.UpTo
	}
	if last := packs[len(packs)-1].UpTo; last > after {
		return c.between(ctx, after, last)
	}
	return nil
}

// pack tests the rows of a pack. It is not usable where it is missing, damaged, of another version, or its key is not here.
func (c *candidates) pack(ctx context.Context, name string) (usable bool, err error) {
	data, err := c.rows.Pack(ctx, name)
	if err != nil || data == nil {
		return false, err
	}
	pack, err := index.DecodePack(data)
	if err != nil {
		return false, nil //nolint:nilerr // its rows are read
	}
	rows, err := pack.Test(c.plan)
	if err != nil {
		return false, nil //nolint:nilerr // its rows are read
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range rows {
		r := &rows[i]
		one := candidate{revision: r.Revision, may: r.May, gone: r.Gone}
		if r.May {
			one.row = pack.Row(i)
		}
		c.addLocked(r.Session, one)
	}
	return true, nil
}

// between tests the rows that were written after a revision, up to another one.
func (c *candidates) between(ctx context.Context, after, upTo uint64) error {
	var buf []byte
	for stored, err := range c.rows.Between(ctx, after, upTo, c.packs) {
		if err != nil {
			return err
		}
		one := candidate{revision: stored.Revision}
		row, err := index.Decode(stored.Value)
		if one.gone = err != nil || row.Session != stored.Session; !one.gone {
			if one.may, buf = c.plan.May(row, buf); one.may {
				one.row, row.Words = row, nil
			}
		}
		c.mu.Lock()
		c.addLocked(stored.Session, one)
		c.mu.Unlock()
	}
	return nil
}
