package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/bodykey"
)

// Rows is a table of projected state, one row per session. Projectors write the rows; all can be made again from the
// histories.
type Rows struct {
	b     *Bus
	kv    jetstream.KeyValue
	plain bool // values have no bodies, and are stored plain
}

// Directory has what is listed of every session.
func (b *Bus) Directory() Rows { return Rows{b: b, kv: b.directory} }

// Tombstones is the directory for rows of erased sessions, which have no bodies: they are stored plain, and replace rows
// whose key is not here. Such a row is read without a value.
func (b *Bus) Tombstones() Rows { return Rows{b: b, kv: b.directory, plain: true} }

// Catalogs has the projected tool catalogues.
func (b *Bus) Catalogs() Rows { return Rows{b: b, kv: b.catalogs} }

// Snapshots has the heads of snapshots.
func (b *Bus) Snapshots() Rows { return Rows{b: b, kv: b.snapshots} }

// Index has what a search finds of every session. Only a reader of a store that is older than the index has none.
func (b *Bus) Index() (rows Rows, ok bool) { return Rows{b: b, kv: b.index}, b.index != nil }

// Projections are the tables whose rows are made again from a session's history: each table of [Rows] except the directory, whose
// row also says what is not in the history. Only a reader of a store that is older than the index has no table of it.
func (b *Bus) Projections() []Rows {
	list := []Rows{b.Snapshots(), b.Catalogs()}
	if index, ok := b.Index(); ok {
		list = append(list, index)
	}
	return list
}

// Row is a value with its revision, which a replacement names.
type Row struct {
	Value    []byte
	Revision uint64 // 0: there is no row
}

// Get reads a row. A session without one has the zero row and no error. Errors: a [*events.KeyError] where the key of the
// row is not here.
func (r Rows) Get(ctx context.Context, session events.SessionID) (Row, error) {
	if err := events.CheckToken("session", session); err != nil {
		return Row{}, err
	}
	return r.get(ctx, session)
}

func (r Rows) get(ctx context.Context, session events.SessionID) (Row, error) {
	stored, revision, err := r.stored(ctx, string(session))
	return r.row(session, stored, revision, err)
}

// stored is the stored value of a key; revision 0 where there is none.
func (r Rows) stored(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	err = r.b.retry(ctx, fmt.Sprintf("get %s/%s", r.kv.Bucket(), key), func(ctx context.Context) error {
		entry, err := r.kv.Get(ctx, key)
		if err == nil {
			value, revision = entry.Value(), entry.Revision()
		}
		return err
	})
	switch {
	case !errors.Is(err, ErrNotFound):
		return value, revision, err
	case r.b.reader:
		return nil, 0, nil
	}
	return r.storedAtLeader(ctx, key)
}

// getAtLeader is [Rows.Get] from the leader of the table, which has every row that was acknowledged. Another replica may be behind. A bus of
// [OpenReader] may lack the permission for that, and writes nothing that depends on it: it reads from any replica.
func (r Rows) getAtLeader(ctx context.Context, session events.SessionID) (Row, error) {
	if r.b.reader {
		return r.Get(ctx, session)
	}
	if err := events.CheckToken("session", session); err != nil {
		return Row{}, err
	}
	return r.atLeader(ctx, session)
}

// atLeader reads a row from the leader of the table.
func (r Rows) atLeader(ctx context.Context, session events.SessionID) (Row, error) {
	stored, revision, err := r.storedAtLeader(ctx, string(session))
	return r.row(session, stored, revision, err)
}

// storedAtLeader is [Rows.stored] from the leader of the table.
func (r Rows) storedAtLeader(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	msg, err := r.b.atLeader(ctx, r.b.names.rowStream(r.kv.Bucket()), leaderQuery{Last: r.b.names.row(r.kv.Bucket(), events.SessionID(key))})
	if errors.Is(err, ErrNotFound) || err == nil && bytes.Contains(msg.Header, []byte("KV-Operation:")) { // there is none, or it was removed
		return nil, 0, nil
	}
	return msg.Data, msg.Seq, err
}

// row is the row of what was stored; zero where nothing was.
func (r Rows) row(session events.SessionID, stored []byte, revision uint64, err error) (Row, error) {
	if err != nil || revision == 0 {
		return Row{}, err
	}
	return r.decode(session, stored, revision)
}

// decode is the row of a stored value.
func (r Rows) decode(session events.SessionID, stored []byte, revision uint64) (Row, error) {
	value, err := r.load(stored)
	if err == nil && value.of != "" && value.of != session {
		err = fmt.Errorf("%w: the row is that of %s", events.ErrMalformed, value.of)
	}
	if err != nil && !r.plain {
		return Row{}, fmt.Errorf("get %s/%s: %w", r.kv.Bucket(), session, err)
	}
	return Row{Value: value.text, Revision: revision}, nil
}

// Put replaces the row of a revision, 0 for none, and returns the new revision. [ErrStale]: the row has another
// revision.
func (r Rows) Put(ctx context.Context, session events.SessionID, value []byte, revision uint64) (uint64, error) {
	if err := events.CheckToken("session", session); err != nil {
		return 0, err
	}
	return r.put(ctx, session, value, revision)
}

func (r Rows) put(ctx context.Context, session events.SessionID, value []byte, revision uint64) (uint64, error) {
	value, err := r.store(session, value)
	if err != nil {
		return 0, fmt.Errorf("put %s/%s: %w", r.kv.Bucket(), session, err)
	}
	next, err := r.putStored(ctx, string(session), value, revision)
	if err == nil {
		return next, nil
	}
	if errors.Is(err, events.ErrMoved) {
		return 0, fmt.Errorf("put %s/%s: %w", r.kv.Bucket(), session, ErrStale)
	}
	return 0, fmt.Errorf("put %s/%s: %w", r.kv.Bucket(), session, err)
}

// putStored replaces the stored value of a key and a revision. [events.ErrMoved]: another process was first.
func (r Rows) putStored(ctx context.Context, key string, value []byte, revision uint64) (next uint64, err error) {
	err = r.b.storing(ctx, r.b.names.rowStream(r.kv.Bucket()), len(value), r.b.cfg.Timeout, func(ctx context.Context) (err error) {
		if revision == 0 {
			next, err = r.kv.Create(ctx, key, value)
		} else {
			next, err = r.kv.Update(ctx, key, value, revision)
		}
		return err
	})
	return next, err
}

// rowValue is a decrypted row.
type rowValue struct {
	of   events.SessionID // empty for a row that is stored plain
	text []byte
}

// store is the stored form of a row. It names its session, because the readers of all rows get no subjects.
func (r Rows) store(session events.SessionID, value []byte) ([]byte, error) {
	if r.plain || r.b.bodies.keys == nil && r.b.bodies.store.Load() == 0 {
		return value, nil
	}
	return r.b.storeBody(append(append([]byte(session), 0), value...), r.kv.Bucket())
}

// load is the inverse of store.
func (r Rows) load(stored []byte) (rowValue, error) {
	if !bodykey.IsStored(stored) {
		return rowValue{text: stored}, nil
	}
	text, err := r.b.loadBody(stored, r.kv.Bucket())
	if err != nil {
		return rowValue{}, err
	}
	session, value, ok := bytes.Cut(text, []byte{0})
	if !ok {
		return rowValue{}, fmt.Errorf("%w: the row names no session", events.ErrMalformed)
	}
	return rowValue{events.SessionID(session), value}, nil
}

// Update replaces a row by what change makes of it, and returns the row as it is then. If another process wrote first,
// or the server that answered the read lacks the last write, Update waits, reads again and calls change again. change
// returns nil to leave the row as it is; its errors are returned, except [ErrStale], which repeats as well.
func (r Rows) Update(ctx context.Context, session events.SessionID, change func(now Row) ([]byte, error)) (Row, error) {
	for try := 1; ; try++ {
		row, err := r.update(ctx, session, change)
		if !errors.Is(err, ErrStale) {
			return row, err
		}
		if pause(ctx, try) != nil {
			return Row{}, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

func (r Rows) update(ctx context.Context, session events.SessionID, change func(now Row) ([]byte, error)) (Row, error) {
	now, err := r.Get(ctx, session)
	if err != nil {
		return Row{}, err
	}
	next, err := change(now)
	if err != nil || next == nil {
		return now, err
	}
	revision, err := r.Put(ctx, session, next, now.Revision)
	return Row{Value: next, Revision: revision}, err
}

// All reads every row, in no order.
func (r Rows) All(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for row, err := range r.Changed(ctx, 0) {
			if !yield(row.Value, err) {
				return
			}
		}
	}
}

// Changed reads the rows that were written after a revision, 0 for all, in the order of the writes. A row that was
// written twice appears once, with the newer value. A row whose key is not here is left out.
func (r Rows) Changed(ctx context.Context, after uint64) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		stream := r.b.names.rowStream(r.kv.Bucket())
		// No filter on the subject: with one the server counts all matches for each batch.
		for msg, err := range r.b.messages(ctx, false, stream, ">", after+1, 0) {
			switch {
			case err != nil:
				yield(Row{}, fmt.Errorf("read %s: %w", r.kv.Bucket(), err))
				return
			case msg.Header.Get("KV-Operation") != "": // a deletion
			default:
				value, err := r.load(msg.Data)
				if errors.As(err, new(*events.KeyError)) {
					continue
				}
				if !yield(Row{Value: value.text, Revision: msg.Sequence}, err) || err != nil {
					return
				}
			}
		}
	}
}

// Keys lists the sessions that have a row.
func (r Rows) Keys(ctx context.Context) iter.Seq2[events.SessionID, error] {
	return func(yield func(events.SessionID, error) bool) {
		list, err := r.b.subjects(ctx, r.b.names.rowStream(r.kv.Bucket()), r.b.names.rows(r.kv.Bucket()))
		if err != nil {
			yield("", fmt.Errorf("list %s: %w", r.kv.Bucket(), err))
			return
		}
		for subject := range list {
			if id, ok := r.b.names.parseRow(r.kv.Bucket(), subject); ok && !isPackKey(id) && !yield(id, nil) {
				return
			}
		}
	}
}
