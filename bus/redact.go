package bus

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/lash-go/lash/events"
)

// Redactions lists the redactions of a session's archive, in order.
func (b *Bus) Redactions(ctx context.Context, session events.SessionID) ([]events.RedactionRecord, error) {
	if err := events.CheckToken("session", session); err != nil {
		return nil, err
	}
	entry, err := b.readEntry(ctx, session)
	return entry.Redactions, err
}

// Redact replaces the archive of a cold session by the redacted one, and adds the record, in one step. From then on the
// session takes no appends: [ErrRedacted]. redacted returns the log without the payloads: every commit has to keep its
// leaf hash. sign, unless it is nil, returns the record's Note. [Bus.PurgeRedacted] is the next step; a process that
// dies before leaves files without a reference.
//
// Errors: [events.ErrInvalid] for a hot session, and where no payload is replaced; [ErrStale] for one that moved
// meanwhile; [events.ErrMalformed]; [events.ErrTooLarge] for too many records.
func (b *Bus) Redact(ctx context.Context, session events.SessionID, r events.RedactionRecord, redacted func(events.Log) events.Log, sign func(context.Context, events.RedactionRecord) (string, error)) (events.RedactionRecord, error) {
	r, err := b.redact(ctx, session, r, redacted, sign)
	if err != nil {
		return r, fmt.Errorf("redact session %s: %w", session, err)
	}
	return r, nil
}

func (b *Bus) redact(ctx context.Context, session events.SessionID, r events.RedactionRecord, redacted func(events.Log) events.Log, sign func(context.Context, events.RedactionRecord) (string, error)) (events.RedactionRecord, error) {
	loc, err := b.locate(ctx, session)
	switch {
	case err != nil:
		return r, err
	case loc.stream != "":
		return r, fmt.Errorf("%w: the session is not cold", events.ErrInvalid)
	}
	if err := b.removeArchivedStreams(ctx, session, loc.entry); err != nil {
		return r, err
	}
	entry, runs := loc.entry, []archiveRun(nil)
	for next := events.Seq(1); next <= entry.Last; next = runs[len(runs)-1].Last + 1 {
		run, err := b.writeRun(ctx, redacted(b.Log()), session, next, entry.Last)
		if err != nil {
			return r, err
		}
		runs = append(runs, run)
	}
	if err := b.fitEntry(ctx, runs); err != nil {
		return r, err
	}
	if r.Events, err = b.compareRedacted(ctx, session, loc, runs); err != nil {
		return r, err
	}
	if sign != nil {
		if r.Note, err = sign(ctx, r); err != nil {
			return r, err
		}
	}
	return r, b.putRedacted(ctx, session, entry, runs, r)
}

// compareRedacted checks that the files have the history, and counts the payloads that they lack.
func (b *Bus) compareRedacted(ctx context.Context, session events.SessionID, loc location, runs []archiveRun) (replaced int64, err error) {
	fresh := location{last: loc.last, entry: archiveEntry{Last: loc.last, Runs: runs}}
	next, stop := iter.Pull2(b.Log().readAt(ctx, session, fresh, 1, loc.last))
	defer stop()
	for old, err := range b.Log().readAt(ctx, session, loc, 1, loc.last) {
		if err != nil {
			return 0, err
		}
		now, err, ok := next()
		if err != nil {
			return 0, err
		}
		if !ok || now.Seq != old.Seq || events.CommitHash(now.Data) != events.CommitHash(old.Data) {
			return 0, fmt.Errorf("%w: the redacted archive has another history from sequence %d on", events.ErrMalformed, old.Seq)
		}
		replaced += redactedIn(now.Commit) - redactedIn(old.Commit)
	}
	if replaced == 0 {
		return 0, fmt.Errorf("%w: no payload is replaced", events.ErrInvalid)
	}
	return replaced, nil
}

func redactedIn(c *events.Commit) (n int64) {
	for i := range c.Events {
		if c.Events[i].Redacted != nil {
			n++
		}
	}
	return n
}

func (b *Bus) putRedacted(ctx context.Context, session events.SessionID, entry archiveEntry, runs []archiveRun, r events.RedactionRecord) error {
	for _, old := range entry.Runs {
		kept := func(now archiveRun) bool { return now.Blob.Digest == old.Blob.Digest }
		if !old.Blob.IsZero() && !slices.ContainsFunc(runs, kept) {
			entry.Replaced = append(entry.Replaced, old.Blob.Digest)
		}
	}
	if entry.StoredAt == 0 {
		entry.StoredAt = events.MillisOf(entry.PutAt)
	}
	entry.Runs, entry.Redactions = runs, append(slices.Clip(entry.Redactions), r)
	if err := events.CheckRedactions(entry.Redactions); err != nil {
		return err
	}
	return b.putEntry(ctx, session, &entry)
}

// PurgeRedacted removes what may have the payloads that a redaction replaced: older archive files, and the session's
// messages in shared streams and rows, without the directory's row and that of the index. It may be repeated, by any
// process. It changes nothing where the archive has no redaction. Blobs that only replaced payloads refer to are
// unreferenced from then on: the sweep removes them.
func (b *Bus) PurgeRedacted(ctx context.Context, session events.SessionID) error {
	entry, err := b.readEntry(ctx, session)
	if err != nil || len(entry.Redactions) == 0 || !entry.Erased.IsZero() {
		return err
	}
	err = b.publishRemoval(session, len(entry.Redactions))
	if err == nil {
		err = b.purgeParts(ctx, session)
	}
	if err != nil {
		return fmt.Errorf("purge redacted session %s: %w", session, err)
	}
	for _, digest := range entry.Replaced {
		anyContent := func(string) bool { return true }
		if err := b.dropBlob(ctx, digest, anyContent); err != nil { // the file has the session's id, so no other session refers to it
			return fmt.Errorf("purge redacted session %s: %w", session, err)
		}
	}
	if len(entry.Replaced) == 0 {
		return nil
	}
	entry.Replaced = nil
	if err := b.putEntry(ctx, session, &entry); err != nil && !errors.Is(err, ErrStale) {
		return fmt.Errorf("purge redacted session %s: %w", session, err)
	}
	return nil
}
