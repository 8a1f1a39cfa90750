package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
)

// Restore makes a history of another log that of a cold session, all of it in one step: readers find either no session or the
// whole history. The bodies that its events refer to must be stored before. A call that died is repeated from its beginning.
//
// The session must not exist. Its place is taken as a creator takes it, so of a creator and Restore one gets a conflict:
//
//	create     the session's stream is there, empty
//	seal       it accepts no first commit; one that is there already wins: [events.ConflictError]
//	put entry  the archive files are the session's history, guarded by the entry's revision
//	discard    the stream is deleted
//
// redactions are the records of payloads that the history lacks: with one, the session is only to be read, as after [Bus.Redact].
//
// After a death before the entry is put, the stream is empty and sealed. [Bus.SweepOrphans] removes it, and another Restore
// continues with it.
//
// Errors: [events.ConflictError] with the end of the session that exists, [events.ErasedError], those of the log.
func (b *Bus) Restore(ctx context.Context, session events.SessionID, from events.Log, redactions ...events.RedactionRecord) error {
	if err := events.CheckRedactions(redactions); err != nil {
		return fmt.Errorf("restore session %s: %w", session, err)
	}
	last, err := from.Last(ctx, session)
	if err != nil {
		return fmt.Errorf("restore session %s: %w", session, err)
	}
	if err := b.mayRestore(ctx, session); err != nil { // before files are stored
		return fmt.Errorf("restore session %s: %w", session, err)
	}
	var runs []archiveRun
	for next := events.Seq(1); next <= last; next = runs[len(runs)-1].Last + 1 {
		r, err := b.writeRun(ctx, from, session, next, last)
		if err != nil {
			return fmt.Errorf("restore session %s: %w", session, err)
		}
		runs = append(runs, r)
	}
	if err := b.fitEntry(ctx, runs); err != nil {
		return fmt.Errorf("restore session %s: %w", session, err)
	}
	for try := 1; ; try++ {
		err := b.restore(ctx, session, runs, last, redactions)
		if err == nil {
			return b.Discard(ctx, session)
		}
		if errors.Is(err, ErrStale) {
			err = pause(ctx, try)
		}
		if err != nil {
			return fmt.Errorf("restore session %s: %w", session, err)
		}
	}
}

// locateToRestore is [Bus.locate], without the [CutOffError] of a session with no commit left: an older history may take its place.
func (b *Bus) locateToRestore(ctx context.Context, session events.SessionID) (location, error) {
	loc, err := b.locate(ctx, session)
	if loc.last == 0 && errors.As(err, new(*CutOffError)) {
		return loc, nil
	}
	return loc, err
}

// mayRestore refuses a session that has commits, or was erased.
func (b *Bus) mayRestore(ctx context.Context, session events.SessionID) error {
	loc, err := b.locateToRestore(ctx, session)
	switch {
	case isEmpty(loc, err):
		return nil
	case err != nil:
		return err
	}
	return &events.ConflictError{Session: session, Last: loc.last}
}

// restore takes the session's place, and puts the entry.
func (b *Bus) restore(ctx context.Context, session events.SessionID, runs []archiveRun, last events.Seq, redactions []events.RedactionRecord) error {
	loc, err := b.locateToRestore(ctx, session)
	if isEmpty(loc, err) && loc.stream == "" {
		if err = (Log{b: b, restores: true}).create(ctx, session); err == nil {
			loc, err = b.locateToRestore(ctx, session)
		}
	}
	if err != nil {
		return err
	}
	if loc.last > 0 {
		return &events.ConflictError{Session: session, Last: loc.last}
	}
	var empty events.Seq
	if err = b.seal(ctx, session, &loc, &empty); err != nil {
		if errors.Is(err, events.ErrNoSession) {
			return ErrStale
		}
		return err
	}
	entry, err := b.readEntry(ctx, session)
	if err != nil {
		return err
	}
	now, err := b.locateToRestore(ctx, session)
	if err != nil {
		return err
	}
	if now.last > 0 { // a first commit came before the seal: an archiver completes the session
		return &events.ConflictError{Session: session, Last: now.last}
	}
	if !now.sealed || now.stream != loc.stream || entry.Next != loc.stream {
		return ErrStale
	}
	directory, err := b.removeRows(ctx, session) // they are of a lost history, which this one may differ from at any commit
	if err != nil {
		return err
	}
	entry.Runs, entry.Last, entry.Stream, entry.Next, entry.Redactions = runs, last, loc.stream, "", redactions
	if err := b.putEntry(ctx, session, &entry); err != nil {
		return err
	}
	if err := directory(); err != nil && !errors.Is(err, events.ErrMoved) { // after the entry: without both, the id would be free
		return err
	}
	return nil
}
