package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
)

// location is where a session's history is: archived runs, then a stream.
type location struct {
	stream string // of a hot session; empty: it is cold
	first  events.Seq
	last   events.Seq   // of the session; 0: there is a stream without commits
	sealed bool         // an archiver has sealed the stream
	entry  archiveEntry // the history before the stream
	as     incarnation  // zero: there is no commit

	name      string // of as; empty like it
	secondary uint64 // [extraLink.connects] of the second connection before it was located
}

// locate finds a session's history; leaders answer. Errors: [events.ErasedError], [events.ErrNoSession]; [CutOffError], with the location of
// what is left.
func (b *Bus) locate(ctx context.Context, session events.SessionID) (location, error) {
	if err := events.CheckToken("session", session); err != nil {
		return location{}, err
	}
	loc, err := b.find(ctx, session)
	if isEmpty(loc, err) {
		return b.checkEmpty(ctx, session, loc, err)
	}
	return loc, err
}

// isEmpty reports whether a session was located that has no commit, and was not erased.
func isEmpty(loc location, err error) bool {
	if err == nil {
		return loc.last == 0
	}
	return errors.Is(err, events.ErrNoSession) && !errors.As(err, new(*events.ErasedError))
}

// find is [Bus.locate] without the commits that only the session's row shows. It notes the incarnation, once more where the first requests
// were answered before a removal that another reader knows, or before a reconnect.
func (b *Bus) find(ctx context.Context, session events.SessionID) (location, error) {
	for certain := false; ; certain = true {
		reconnects, secondary := b.Reconnects(), b.secondary.connects()
		loc, err := b.findOnce(ctx, session)
		if name, ok := b.incarnations.note(session, loc.as, reconnects, certain); ok {
			loc.name, loc.secondary = name, secondary
			return loc, err
		}
	}
}

func (b *Bus) findOnce(ctx context.Context, session events.SessionID) (location, error) {
	loc := location{stream: b.names.firstStream(session), first: 1}
	end, err := b.streamEnd(ctx, loc.stream)
	loc.last, loc.sealed = end.last, end.sealed
	if err == nil && loc.last > 0 && !end.sealed && !end.opening {
		loc.as = incarnation{stream: loc.stream, created: end.created}
		return loc, nil
	}
	if err != nil && !errors.Is(err, events.ErrNoSession) {
		return location{}, err
	}
	entry, entryErr := b.readEntry(ctx, session)
	switch {
	case entryErr != nil:
		return location{}, entryErr
	case entry.Revision != 0:
		return b.locateArchived(ctx, session, entry)
	case err != nil:
		return location{}, noHistory(session)
	case loc.last > 0: // an archiver has sealed it, and died
		loc.as = incarnation{stream: loc.stream, created: end.created}
	}
	return loc, nil
}

// locateFrom is [Bus.locate] for a reader of the commits from a sequence on, and of the end. The location may omit
// the archive of earlier commits.
func (b *Bus) locateFrom(ctx context.Context, session events.SessionID, from events.Seq) (location, error) {
	if c, ok := b.streams.get(session); ok && c.first <= from {
		reconnects, secondary := b.Reconnects(), b.secondary.connects()
		end, err := b.streamEnd(ctx, c.stream)
		if err == nil && !end.sealed && !end.opening && end.last >= c.first {
			loc := location{stream: c.stream, first: c.first, last: end.last, as: incarnation{stream: c.stream, created: end.created}, secondary: secondary}
			var ok bool
			if loc.name, ok = b.incarnations.note(session, loc.as, reconnects, false); ok {
				return loc, nil
			}
		}
		b.streams.drop(session, c)
	}
	return b.locate(ctx, session)
}

// locateArchived is [Bus.locate] for a session that has an entry.
func (b *Bus) locateArchived(ctx context.Context, session events.SessionID, entry archiveEntry) (loc location, err error) {
	recreated := false
	for try := 1; ; try++ {
		loc = location{last: entry.Last, entry: entry}
		switch {
		case !entry.Erased.IsZero():
			loc.as = incarnation{stream: cmp.Or(entry.Stream, b.names.firstStream(session)), removed: removedAll}
			return loc, entry.Erased.erasedError(session)
		case entry.Next == "":
			loc.as = incarnation{stream: cmp.Or(entry.Stream, b.names.firstStream(session)), removed: len(entry.Redactions)}
			return loc, nil
		}
		end, err := b.streamEnd(ctx, entry.Next)
		if err == nil {
			loc.stream, loc.first, loc.last, loc.sealed = entry.Next, entry.Last+1, max(entry.Last, end.last), end.sealed
			loc.as = incarnation{stream: loc.stream, created: end.created}
			if end.opening {
				if err := b.checkWhole(ctx, session, &loc); err != nil {
					if recreated {
						b.log.Error("the stream of a session is gone", zap.String("session", string(session)), zap.Error(err))
					}
					return loc, err
				}
			}
			b.streams.put(session, cachedStream{loc.stream, loc.first})
			return loc, nil
		}
		if !errors.Is(err, events.ErrNoSession) {
			return location{}, err
		}
		again, err := b.readEntry(ctx, session)
		if err == nil && again.Revision == entry.Revision { // otherwise it was archived again
			recreated = true
			if err = b.recreateStream(ctx, session, again); err == nil {
				again, err = b.readEntry(ctx, session)
			}
			err = errors.Join(err, pause(ctx, try))
		}
		if err != nil {
			return location{}, err
		}
		entry = again
	}
}

// recreateStream makes the stream of a hot session that its server does not have, with all messages that are on the
// server's disk. A single server (nats-server 2.15.2) that is killed between the two files of a stream's new settings
// skips that stream at every later start, until it is made again. Then it gets other settings, as in [Bus.bind].
//
// The server may have lost a seal too. So the entry is first put unchanged: its revision moves, and an archiver that
// saw the seal gets [ErrStale]. Where the entry was replaced meanwhile, no stream is made.
func (b *Bus) recreateStream(ctx context.Context, session events.SessionID, entry archiveEntry) error {
	if b.reader {
		return &streamGoneError{session: session, entry: entry}
	}
	return b.makeStreamAgain(ctx, session, entry)
}

// Recreate makes the stream of a session again if the server lacks it, also on a bus of [OpenReader]. A bus of [Open] does so at every
// request. Errors of the session itself are left to the request that follows.
func (b *Bus) Recreate(ctx context.Context, session events.SessionID) error {
	_, err := b.locate(ctx, session)
	if gone, ok := errors.AsType[*streamGoneError](err); ok {
		return b.makeStreamAgain(ctx, session, gone.entry)
	}
	return nil
}

// streamGoneError is a stream that the server lacks, and that a reader does not make again.
type streamGoneError struct {
	session events.SessionID
	entry   archiveEntry
}

func (e *streamGoneError) Error() string {
	return fmt.Sprintf("%v: the server lacks stream %s of session %s; a node that comes to the session, lash-node fork %s, or lash-node erase makes it again, with what the disk has",
		events.ErrOutcomeUnknown, e.entry.Next, e.session, e.session)
}
func (*streamGoneError) Unwrap() error { return events.ErrOutcomeUnknown }

func (b *Bus) makeStreamAgain(ctx context.Context, session events.SessionID, entry archiveEntry) error {
	cfg := b.openingConfig(session, entry, ulid.Make().String())
	cfg.Name = entry.Next
	if entry.LastPut == 0 {
		entry.LastPut = events.MillisOf(entry.PutAt)
	}
	err := b.putEntry(ctx, session, &entry)
	if err == nil {
		err = b.makeStream(ctx, cfg)
	}
	if err != nil && !errors.Is(err, ErrStale) {
		return fmt.Errorf("make the stream of %s again: %w", session, err)
	}
	return nil
}

// streamInfo is a stream's state at its leader. Without a leader any member answers with its own state: that is
// [events.ErrOutcomeUnknown].
func (b *Bus) streamInfo(ctx context.Context, name string, more ...jetstream.StreamInfoOpt) (info *jetstream.StreamInfo, err error) {
	err = b.once(ctx, func(ctx context.Context) error {
		stream, err := b.js.Stream(ctx, name)
		switch {
		case err != nil:
			return err
		case len(more) > 0:
			info, err = stream.Info(ctx, more...)
			return err
		}
		info = stream.CachedInfo()
		return nil
	})
	if err != nil {
		return nil, err
	}
	if info.Cluster != nil && info.Cluster.Leader == "" {
		return nil, fmt.Errorf("%w: stream %s has no leader", events.ErrOutcomeUnknown, name)
	}
	return info, nil
}

// streamEnd is the end of a stream.
type streamEnd struct {
	last    events.Seq
	sealed  bool // it takes no more appends
	opening bool // it takes no appends yet
	created time.Time
}

func (b *Bus) streamEnd(ctx context.Context, name string) (streamEnd, error) {
	info, err := b.streamInfo(ctx, name)
	if err != nil {
		return streamEnd{}, err
	}
	return streamEnd{
		last: events.Seq(info.State.LastSeq), sealed: info.Config.Sealed,
		opening: slices.ContainsFunc(info.Config.Subjects, b.names.isOpening), created: info.Created,
	}, nil
}

// reopen makes a cold session hot, unless another process did. It makes the next stream, then puts its name into the
// entry. The stream takes no appends before that, so the late stream of a paused process is never appended to.
func (b *Bus) reopen(ctx context.Context, session events.SessionID, entry archiveEntry) error {
	if len(entry.Redactions) > 0 {
		return fmt.Errorf("reopen session %s: %w", session, ErrRedacted)
	}
	cfg := b.openingConfig(session, entry, ulid.Make().String())
	err := b.reserveReopen(ctx)
	if err == nil {
		err = b.makeStream(ctx, cfg)
	}
	if err != nil {
		return fmt.Errorf("reopen session %s: %w", session, err)
	}
	entry.Next = cfg.Name
	err = b.putEntry(ctx, session, &entry)
	if errors.Is(err, ErrStale) {
		now, err := b.readEntry(ctx, session)
		if err != nil || now.Next == cfg.Name {
			return err
		}
		return b.deleteStream(ctx, cfg.Name)
	}
	return err
}

// openingConfig is a session's next stream before it takes appends.
func (b *Bus) openingConfig(session events.SessionID, entry archiveEntry, nonce string) jetstream.StreamConfig {
	cfg := b.sessionConfig(session, b.names.nextStream(session, nonce))
	cfg.FirstSeq, cfg.Subjects = uint64(entry.Last+1), []string{b.names.opening(session, nonce)}
	return cfg
}

// bind lets a session's next stream take the session's appends. The caller has located the stream since the entry names it: see
// [Bus.checkWhole]. Errors: [events.ErrNoSession] where the stream was archived meanwhile.
func (b *Bus) bind(ctx context.Context, session events.SessionID, entry archiveEntry) error {
	if err := b.removeArchivedStreams(ctx, session, entry); err != nil {
		return err
	}
	info, err := b.streamInfo(ctx, entry.Next)
	if err != nil {
		return err
	}
	cfg := info.Config
	if cfg.Sealed || !slices.ContainsFunc(cfg.Subjects, b.names.isOpening) {
		return nil
	}
	now, err := b.readEntry(ctx, session) // the stream may have been made again too late
	if err == nil && now.Next != entry.Next {
		err = ErrStale
	}
	if err != nil {
		return err
	}
	cfg.Subjects = []string{b.names.sessionAll(session)}
	return b.once(ctx, func(ctx context.Context) error {
		_, err := b.js.UpdateStream(ctx, cfg)
		return err
	})
}

// emptyFor is how long a stream without commits may exist before [Bus.SweepOrphans] removes it, by the server's
// clock.
const emptyFor = 10 * time.Minute

// SweepOrphans completes or removes the streams of processes that died while they created a session or made it hot. A
// process that is only slow tries again.
func (b *Bus) SweepOrphans(ctx context.Context) error {
	for hot, err := range b.Hot(ctx) {
		if err == nil && hot.Last == 0 && hot.Quiet > emptyFor {
			err = b.removeEmpty(ctx, hot.ID)
		}
		if err != nil {
			return fmt.Errorf("sweep orphaned streams: %w", err)
		}
	}
	for name, err := range listStreams[string](ctx, b, apiStreamNames, b.names.openingAll()) {
		if err != nil {
			return fmt.Errorf("sweep orphaned streams: %w", err)
		}
		id, ok := b.names.sessionOf(name)
		if !ok {
			continue
		}
		if err := b.sweepOpening(ctx, id, name); err != nil && !errors.Is(err, ErrStale) {
			return fmt.Errorf("sweep orphaned streams: %w", err)
		}
	}
	return nil
}

// sweepOpening decides about a stream that takes no appends yet. If the entry names it, it is bound, unless it was made in the place of
// a lost one: an operator decides about that. Otherwise the entry is put unchanged, so that no paused process can name the stream any
// more, and the stream is deleted.
func (b *Bus) sweepOpening(ctx context.Context, session events.SessionID, name string) error {
	entry, err := b.readEntry(ctx, session)
	switch {
	case err != nil:
		return err
	case entry.Next == name && entry.Erased.IsZero():
		loc, err := b.locateArchived(ctx, session, entry)
		switch {
		case errors.As(err, new(*CutOffError)):
			return nil
		case err != nil || loc.stream != name: // archived meanwhile
			return err
		}
		return b.bind(ctx, session, loc.entry)
	case entry.Revision != 0:
		if err := b.putEntry(ctx, session, &entry); err != nil {
			return err
		}
	}
	return b.deleteStream(ctx, name)
}

// removeEmpty archives and deletes a session's first stream that has no commit. Its creator may only be slow, so it
// is archived like any other. The name of a deleted stream is not used again: the server (nats-server 2.15.2) may
// delete the files of a stream that is made while the earlier one of its name is deleted.
func (b *Bus) removeEmpty(ctx context.Context, session events.SessionID) error {
	err := b.Archive(ctx, session, 0)
	if err == nil {
		err = b.Discard(ctx, session)
	}
	if errors.As(err, new(*events.ConflictError)) || errors.Is(err, events.ErrNoSession) || errors.As(err, new(*CutOffError)) {
		return nil // it has a commit now, or another process removed it, or [Bus.Restore] died on it
	}
	return err
}

// removeArchivedStreams deletes the streams of a session whose content is archived. The stream of an erased session belongs to the erasure,
// which deletes it with the files: [*events.ErasedError].
func (b *Bus) removeArchivedStreams(ctx context.Context, session events.SessionID, entry archiveEntry) error {
	if entry.Stream != "" {
		there, err := b.verifyArchive(ctx, session, entry)
		if err == nil && there {
			err = b.deleteStream(ctx, entry.Stream)
		}
		if err != nil {
			if now, again := b.readEntry(ctx, session); again == nil && !now.Erased.IsZero() {
				return now.Erased.erasedError(session)
			}
			return err
		}
	}
	firstStream := b.names.firstStream(session)
	if entry.Stream == firstStream || entry.Next == firstStream {
		return nil
	}
	end, err := b.streamEnd(ctx, firstStream)
	switch {
	case errors.Is(err, events.ErrNoSession):
		return nil
	case err == nil && (end.last == 0 || entry.Last > 0):
		// The stream of a creator that had not checked the entry yet. Its messages are not the session's, which
		// continues elsewhere: nats-server 2.15.2 may give a new stream the messages of an earlier one of its name
		// that is being deleted.
		return b.deleteStream(ctx, firstStream)
	}
	return err
}

func (b *Bus) deleteStream(ctx context.Context, name string) error {
	return b.retry(ctx, "delete stream "+name, func(ctx context.Context) error {
		err := b.js.DeleteStream(ctx, name)
		if isNoAsset(err) {
			return nil
		}
		return err
	})
}
