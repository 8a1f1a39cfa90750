package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
)

// CutOffError is a session whose stream is gone, with commits that neither its archive nor the stream that was made in
// its place has. The session is refused until the stream is put back from a backup, or until [Bus.AcceptLoss].
type CutOffError struct {
	Session events.SessionID
	Stream  string     // that is gone
	Last    events.Seq // of the commits that are there
	Known   events.Seq // of the commits that the session had, by its row in the directory; the last second of it may be missing there
}

// Error implements error.
func (e *CutOffError) Error() string {
	return fmt.Sprintf("session %s: commits %d to %d are lost with stream %s: put the stream back from a backup, or accept the loss",
		e.Session, e.Last+1, e.Known, e.Stream)
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
	Erased   json.RawMessage `json:"erased"` // of a session whose erasure has begun
	revision uint64
}

func (b *Bus) rowFields(ctx context.Context, session events.SessionID) (fields rowFields, err error) {
	row, err := b.Directory().Get(ctx, session) // no row has no value
	if errors.Is(err, events.ErrLocked) || errors.Is(err, events.ErrMalformed) {
		return fields, nil
	}
	if err != nil {
		return fields, fmt.Errorf("compare session %s with its row: %w", session, err)
	}
	_ = json.Unmarshal(row.Value, &fields) // a row that is no JSON says nothing
	fields.revision = row.Revision
	return fields, nil
}

// AcceptLoss lets a session continue without the commits that a [CutOffError] names, and returns that error. It removes the rows that have
// them. A call that died can be repeated until the row of the directory is removed, which comes last: then the session continues, and
// projectors find it. Errors: [ErrNotFound] where the session has no such commits, [ErrErasing].
func (b *Bus) AcceptLoss(ctx context.Context, session events.SessionID) (*CutOffError, error) {
	_, err := b.locate(ctx, session)
	lost, ok := errors.AsType[*CutOffError](err)
	if err == nil {
		err = fmt.Errorf("lost commits of session %s: %w", session, ErrNotFound)
	}
	if !ok {
		return nil, err
	}
	if err = b.removeRowsAfter(ctx, session, lost.Last); err == nil {
		err = b.MarkDirty(session)
	}
	if err == nil {
		err = b.StoreWake(ctx, WakeKey{Class: ClassTurn, Session: session}, WakeHint{})
	}
	if err != nil {
		return nil, fmt.Errorf("accept the loss of session %s: %w", session, err)
	}
	return lost, nil
}

// removeRowsAfter removes the rows of a session that have commits after its end. Otherwise a snapshot of lost commits would be folded with
// the new commits of the same sequences. The row of the directory is removed last, because it shows the loss. A session that is being erased
// keeps its rows: the error is [ErrErasing]. An erasure that starts meanwhile replaces the row of the directory, which then stays too.
func (b *Bus) removeRowsAfter(ctx context.Context, session events.SessionID, end events.Seq) error {
	row, err := b.rowFields(ctx, session)
	switch {
	case err != nil:
		return err
	case len(row.Erased) > 0:
		return fmt.Errorf("session %s: %w", session, ErrErasing)
	case row.Seq <= end:
		return nil
	}
	for _, rows := range []jetstream.KeyValue{b.snapshots, b.catalogs, b.index, b.directory} {
		var options []jetstream.KVDeleteOpt
		if rows == b.directory {
			options = append(options, jetstream.LastRevision(row.revision))
		}
		if err := b.once(ctx, func(ctx context.Context) error { return rows.Purge(ctx, string(session), options...) }); err != nil {
			return fmt.Errorf("remove the row in %s: %w", rows.Bucket(), err)
		}
	}
	return nil
}
