package bus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
)

// CutOffError is a session whose stream is gone, with commits that neither its archive nor the stream that was made in
// its place has. The session is refused until the stream is put back from a backup. [Log.Remaining] reads what is
// left. Of a session that was not archived, all commits are gone: its id stays in use, and [Bus.PutTombstone] erases it.
type CutOffError struct {
	Session events.SessionID
	Stream  string     // that is gone
	Last    events.Seq // of the commits that are there; 0: none
	Known   events.Seq // of the commits that the session had, by its row in the directory; the last second of it may be missing there
}

// Error implements error.
func (e *CutOffError) Error() string {
	return fmt.Sprintf("stream %s is gone: %v", e.Stream, e.Unwrap())
}

// checkWhole compares the end of a stream that takes no appends yet with the session's row. A session that becomes hot has a row
// of its archive's end at most. Only a stream that was made in the place of a lost one ends before the row. Readers of streams that take
// appends do not come here, unless the stream takes them since it was located:
//
//	this process                         another process
//	locates the stream, without appends
//	                                     binds it, appends, writes the row
//	reads the row
//
// So the stream is located again after the row: one that takes appends by then is whole. [events.ErrOutcomeUnknown]: it is archived by then.
func (b *Bus) checkWhole(ctx context.Context, session events.SessionID, loc *location) error {
	known, err := b.rowSeq(ctx, session)
	if err != nil || known <= loc.last {
		return err
	}
	end, err := b.streamEnd(ctx, loc.stream)
	switch {
	case errors.Is(err, events.ErrNoSession):
		return fmt.Errorf("%w: session %s was archived meanwhile", events.ErrOutcomeUnknown, session)
	case err != nil:
		return err
	case end.opening:
		return &CutOffError{Session: session, Stream: loc.stream, Last: loc.last, Known: known}
	}
	loc.last, loc.sealed = max(loc.last, end.last), end.sealed
	return nil
}

// checkEmpty returns a [CutOffError] for a session without commits whose row shows some, a [*events.KeyError] where the key of the row is not
// here, and otherwise loc and err. A creator or an archiver
// may have been faster than the two reads, so the session is located again after the row.
func (b *Bus) checkEmpty(ctx context.Context, session events.SessionID, loc location, err error) (location, error) {
	row, rowErr := b.rowFields(ctx, session)
	if rowErr != nil {
		return loc, rowErr
	}
	known := row.Seq
	if known == 0 && row.locked == nil {
		return loc, err
	}
	if loc, err = b.find(ctx, session); !isEmpty(loc, err) {
		return loc, err
	}
	if row.locked != nil {
		return loc, row.locked
	}
	return loc, &CutOffError{Session: session, Stream: cmp.Or(loc.stream, loc.entry.Stream, b.names.firstStream(session)), Known: known}
}

// DirectorySeq is what package bus reads of a session's row in the directory. The row is a JSON object that embeds it.
type DirectorySeq struct {
	Seq events.Seq `json:"seq"`
}

// rowSeq is the sequence of a session's row; 0 without one, and where the row's key is not here.
func (b *Bus) rowSeq(ctx context.Context, session events.SessionID) (events.Seq, error) {
	fields, err := b.rowFields(ctx, session)
	return fields.Seq, err
}

// rowFields is what package bus reads of a row.
type rowFields struct {
	DirectorySeq
	Erased   json.RawMessage `json:"erased"` // of a session that is being erased, or is erased
	revision uint64
	locked   error // the row's key is not here
}

func (b *Bus) rowFields(ctx context.Context, session events.SessionID) (fields rowFields, err error) {
	row, err := b.Directory().getAtLeader(ctx, session) // no row has no value
	if errors.Is(err, events.ErrLocked) {
		return rowFields{locked: err}, nil
	}
	if errors.Is(err, events.ErrMalformed) {
		return fields, nil
	}
	if err != nil {
		return fields, fmt.Errorf("compare session %s with its row: %w", session, err)
	}
	_ = json.Unmarshal(row.Value, &fields) // a row that is no JSON says nothing
	fields.revision = row.Revision
	return fields, nil
}

// removeRows removes the rows of a session of which no commit is left. Otherwise a snapshot of lost commits would be folded with the new
// commits of the same sequences. The row of the directory, which shows the loss, is left to the function that is returned. A session
// that is being erased keeps its rows: the error is [ErrErasing]. An erasure that starts meanwhile replaces the row of the directory, which
// then stays too.
func (b *Bus) removeRows(ctx context.Context, session events.SessionID) (directory func() error, err error) {
	row, err := b.rowFields(ctx, session)
	switch {
	case err != nil:
		return nil, err
	case len(row.Erased) > 0:
		return nil, fmt.Errorf("session %s: %w", session, ErrErasing)
	case row.Seq == 0:
		return func() error { return nil }, nil
	}
	purge := func(rows jetstream.KeyValue, options ...jetstream.KVDeleteOpt) error {
		err := b.once(ctx, func(ctx context.Context) error { return rows.Purge(ctx, string(session), options...) })
		if err != nil {
			return fmt.Errorf("remove the row in %s: %w", rows.Bucket(), err)
		}
		return nil
	}
	for _, rows := range b.Projections() {
		if err := purge(rows.kv); err != nil {
			return nil, err
		}
	}
	return func() error { return purge(b.directory, jetstream.LastRevision(row.revision)) }, nil
}

// checkNew refuses the creation of a session whose commits are lost.
func (b *Bus) checkNew(ctx context.Context, session events.SessionID) error {
	row, err := b.rowFields(ctx, session)
	if err != nil || row.Seq == 0 && row.locked == nil {
		return err
	}
	if _, err = b.locate(ctx, session); errors.Is(err, events.ErrNoSession) && !errors.As(err, new(*events.ErasedError)) {
		return nil // its row is gone by now
	}
	return err // nil: it exists, so the append meets a conflict
}

// lostWhole lists the sessions of which only the row is left, of those that were not seen with a stream or an archive. Where the key of the
// row is not here, it may be such a session, and is listed.
func (b *Bus) lostWhole(ctx context.Context, seen map[events.SessionID]bool) iter.Seq2[events.SessionID, error] {
	return func(yield func(events.SessionID, error) bool) {
		for id, err := range b.Erased(ctx) { // these keep their rows
			if err != nil {
				yield("", err)
				return
			}
			seen[id] = true
		}
		for id, err := range b.Directory().Keys(ctx) {
			if err == nil && !seen[id] {
				_, err = b.locate(ctx, id)
				lost, ok := errors.AsType[*CutOffError](err)
				switch {
				case ok && lost.Last == 0, errors.Is(err, events.ErrLocked):
					err = nil
				case err == nil || ok || errors.Is(err, events.ErrNoSession): // it was made or erased meanwhile, or its row has no commits
					continue
				}
			}
			if !seen[id] && !yield(id, err) || err != nil {
				return
			}
		}
	}
}
