package bus

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
)

// Headers of a commit, for other NATS tools.
const (
	headerKinds  = "Lash-Kinds"
	headerFormat = "Lash-Format"
	headerSeq    = "Nats-Sequence" // of republished messages
)

// Log is every session's history, one stream each. It implements [events.Log].
type Log struct {
	b         *Bus
	remaining bool // it reads what is left of a session with lost commits
	restores  bool // it takes the place of a session with no commit left: see [Bus.Restore]
}

// Log is the log of this bus.
func (b *Bus) Log() Log { return Log{b: b} }

// Remaining is the log whose reads end where the commits of a session are lost, without the [CutOffError] unless none is left. Appends are
// refused as before.
func (l Log) Remaining() Log { return Log{b: l.b, remaining: true} }

// accepts drops the error of a location that has what is left, if the log reads that.
func (l Log) accepts(loc location, err error) (location, error) {
	if l.remaining && loc.last > 0 && errors.As(err, new(*CutOffError)) {
		return loc, nil
	}
	return loc, err
}

// Append implements [events.Log]. At 0 it creates the session's stream.
func (l Log) Append(ctx context.Context, c *events.Commit, expected events.Seq) (events.Seq, error) {
	data, err := l.b.encodeCommit(c)
	if err != nil {
		return 0, err
	}
	if expected > 0 {
		return l.appendAt(ctx, c, data, expected)
	}
	err = l.b.hasRoom(l.b.names.firstStream(c.Session), len(data)) // before a stream is made
	if err == nil {
		err = l.create(ctx, c.Session)
	}
	if errors.As(err, new(*events.ConflictError)) {
		if err = l.startsWith(ctx, c, err); err == nil {
			return 1, nil
		}
	}
	if err != nil {
		return 0, fmt.Errorf("append to %s: %w", c.Session, err)
	}
	seq, err := l.appendFirst(ctx, c, data)
	if isEmpty(location{last: seq}, err) { // a server that is behind, or was killed, does not have the stream that was made
		err = fmt.Errorf("%w: %v", events.ErrOutcomeUnknown, err) //nolint:errorlint // it says nothing about the session
	}
	return seq, err
}

// appendFirst publishes the first commit. Race that it decides after the publish:
//
//  1. Creator A finds no session, and pauses.
//  2. The session is created and archived. Creator B makes the first stream again, empty, and dies.
//  3. A publishes: the stream of B takes the commit.
//
// The entry shows that the session exists elsewhere. A then removes the stream with its commit, and returns a
// conflict.
func (l Log) appendFirst(ctx context.Context, c *events.Commit, data []byte) (events.Seq, error) {
	seq, err := l.appendAt(ctx, c, data, 0)
	conflicts := errors.As(err, new(*events.ConflictError))
	if err != nil && !conflicts {
		return 0, err
	}
	entry, entryErr := l.b.readEntry(ctx, c.Session)
	if conflicts {
		if entryErr != nil || entry.Revision == 0 {
			return 0, errors.Join(err, entryErr)
		}
		if entryErr = l.b.removeArchivedStreams(ctx, c.Session, entry); entryErr != nil { // the stream that refused it is not the session's
			return 0, errors.Join(err, entryErr)
		}
		if err = l.startsWith(ctx, c, err); err != nil {
			return 0, err
		}
		return 1, nil
	}
	err = entryErr
	firstStream := l.b.names.firstStream(c.Session)
	if err == nil && (entry.Last == 0 || entry.Next == firstStream || !entry.Erased.IsZero()) {
		return seq, nil
	}
	if err == nil {
		err = l.startsWithAt(ctx, c, location{entry: entry}, &events.ConflictError{Session: c.Session, Last: entry.Last})
	}
	switch {
	case err == nil && entry.Stream == firstStream: // this may be the session's own stream, which an archiver is about to delete
		err = l.b.removeArchivedStreams(ctx, c.Session, entry)
	case err == nil, errors.As(err, new(*events.ConflictError)):
		err = errors.Join(err, l.b.deleteStream(ctx, firstStream))
	}
	if err != nil {
		return 0, fmt.Errorf("append to %s: %w", c.Session, err)
	}
	return seq, nil
}

// appendAt appends a commit to a session that has a stream or an entry.
func (l Log) appendAt(ctx context.Context, c *events.Commit, data []byte, at events.Seq) (events.Seq, error) {
	seq, err := events.Settle(ctx, events.Publication{
		Commit:  c,
		At:      at,
		Publish: func(ctx context.Context) (events.Seq, error) { return l.publish(ctx, c, data, at) },
		Read: func(ctx context.Context, from events.Seq) iter.Seq2[events.Entry, error] {
			return l.read(ctx, c.Session, from)
		},
		Last: func(ctx context.Context) (events.Seq, error) { return l.lastAfterRefusal(ctx, c.Session) },
		Wait: pause,
	})
	if err != nil {
		if errors.As(err, new(*events.ConflictError)) {
			l.b.conflicts.Add(1)
		}
		return 0, fmt.Errorf("append to %s: %w", c.Session, err)
	}
	return seq, nil
}

// create makes the stream of a session that does not exist. An archived session exists; the stream of a hot one
// accepts or refuses the append itself.
func (l Log) create(ctx context.Context, session events.SessionID) error {
	firstStream := l.b.names.firstStream(session)
	for made := false; ; made = true { // the second check finds a session that was archived before the stream was made
		entry, err := l.b.readEntry(ctx, session)
		switch {
		case err != nil:
			return err
		case entry.Revision == 0 || entry.Last == 0 && entry.Erased.IsZero():
			if !l.restores {
				err = l.b.checkNew(ctx, session)
			}
			if err != nil {
				return err
			}
		}
		if entry.Revision != 0 {
			if made {
				err = l.b.removeArchivedStreams(ctx, session, entry)
			}
			return errors.Join(l.createArchived(ctx, session, entry), err)
		}
		if made {
			return nil
		}
		reconnects, created := l.b.Reconnects(), time.Time{}
		if err = l.b.reserveNew(ctx, session); err == nil {
			created, err = l.b.makeStreamAt(ctx, l.b.sessionConfig(session, firstStream))
		}
		if !created.IsZero() {
			l.b.incarnations.note(session, incarnation{stream: firstStream, created: created}, reconnects, false)
		}
		if err != nil {
			return err
		}
	}
}

// startsWith is nil if the session's history starts with this commit, as for a repeated creation, and else refusal.
func (l Log) startsWith(ctx context.Context, c *events.Commit, refusal error) error {
	loc, err := l.b.locate(ctx, c.Session)
	if err != nil {
		return fmt.Errorf("%w: %w", events.ErrOutcomeUnknown, err)
	}
	return l.startsWithAt(ctx, c, loc, refusal)
}

// startsWithAt is [Log.startsWith] for a located history.
func (l Log) startsWithAt(ctx context.Context, c *events.Commit, loc location, refusal error) error {
	for logEntry, err := range l.readAt(ctx, c.Session, loc, 1, 1) {
		if err != nil {
			return fmt.Errorf("%w: %w", events.ErrOutcomeUnknown, err)
		}
		if logEntry.Commit.ID == c.ID {
			return nil
		}
		break
	}
	return refusal
}

// createArchived decides the creation of a session that has an entry. nil means that the session has no commit yet
// and takes the first one. A first commit must reach no other stream than the session's: any empty stream accepts it.
func (l Log) createArchived(ctx context.Context, session events.SessionID, entry archiveEntry) error {
	switch {
	case !entry.Erased.IsZero():
		return entry.Erased.erasedError(session)
	case entry.Last > 0:
		last, err := l.lastSeq(ctx, session)
		if err == nil {
			err = &events.ConflictError{Session: session, Last: max(last, entry.Last)}
		}
		return err
	case entry.Next == l.b.names.firstStream(session):
		return nil // the stream accepts or refuses the commit
	}
	for try := 1; ; try++ { // the session never had a commit, and its first stream is gone
		hot, err := l.makeHot(ctx, session, nil)
		if hot {
			return nil
		}
		if err == nil {
			err = pause(ctx, try)
		}
		if err != nil {
			return err
		}
	}
}

// Conflicts counts the appends on this bus that met a newer commit.
func (b *Bus) Conflicts() int64 { return b.conflicts.Load() }

// errWasCold is a publish to a cold session, which is hot now: the next publish finds its stream.
var errWasCold = fmt.Errorf("%w: the session was cold", events.ErrOutcomeUnknown)

// publish tries once, and once more where the session was cold.
func (l Log) publish(ctx context.Context, c *events.Commit, data []byte, at events.Seq) (events.Seq, error) {
	msg := &nats.Msg{Subject: l.b.names.commit(c), Data: data, Header: nats.Header{
		jetstream.MsgIDHeader:           {string(c.ID)},
		jetstream.ExpectedLastSeqHeader: {strconv.FormatUint(uint64(at), 10)},
		headerKinds:                     {kindsOf(c)},
		headerFormat:                    {strconv.Itoa(events.FormatVersion)},
	}}
	seq, err := l.publishOnce(ctx, c.Session, msg)
	if errors.Is(err, errWasCold) {
		seq, err = l.publishOnce(ctx, c.Session, msg)
	}
	return seq, err
}

func (l Log) publishOnce(ctx context.Context, session events.SessionID, msg *nats.Msg) (events.Seq, error) {
	var ack *jetstream.PubAck
	err := l.b.storing(ctx, l.b.sessionStream(session), len(msg.Data), l.b.cfg.Timeout, func(ctx context.Context) (err error) {
		ack, err = l.b.js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
		return err
	})
	switch {
	case err == nil:
		return events.Seq(ack.Sequence), nil
	case isNoResponder(err), errors.Is(err, events.ErrSealed):
		var hot bool
		if hot, err = l.makeHot(ctx, session, err); hot {
			err = errWasCold
		}
	}
	return 0, err
}

// makeHot handles a publish that met no stream, or a sealed one. The cases: the session does not exist; it is cold;
// it is being archived, by a process that may be dead; its stream has no leader. makeHot completes the archive and
// opens the next stream. hot: the append can be tried again. Else the error is refusal where that is not certain, and
// otherwise why the session cannot be made hot.
func (l Log) makeHot(ctx context.Context, session events.SessionID, refusal error) (hot bool, err error) {
	if errors.Is(refusal, events.ErrSealed) {
		refusal = fmt.Errorf("%w: the session was being archived", events.ErrOutcomeUnknown)
	}
	locate := l.b.locate
	if l.restores {
		locate = l.b.locateToRestore
	}
	loc, err := locate(ctx, session)
	if err == nil && loc.sealed {
		if err = l.b.Archive(ctx, session, 0); err == nil {
			err = l.b.Discard(ctx, session)
		}
		if errors.As(err, new(*events.ConflictError)) {
			return false, refusal // it is hot again
		}
		if err == nil {
			loc, err = locate(ctx, session)
		}
	}
	if err == nil && loc.stream == "" {
		if err = l.b.removeArchivedStreams(ctx, session, loc.entry); err == nil {
			err = l.b.reopen(ctx, session, loc.entry)
		}
		if err == nil {
			loc, err = locate(ctx, session)
		}
	}
	switch {
	case errors.Is(err, events.ErrNoSession), errors.Is(err, ErrFull), errors.Is(err, events.ErrStorage), errors.Is(err, ErrRedacted), errors.As(err, new(*CutOffError)):
		return false, err // nothing was written, and a retry would not help
	case err != nil || loc.entry.Next == "":
		return false, refusal
	case l.b.bind(ctx, session, loc.entry) != nil:
		return false, refusal
	}
	return true, nil
}

// lastAfterRefusal is [Log.Last] for an append that was refused though no commit follows. An empty stream may have
// refused it:
//
//  1. A creator finds no session, and pauses.
//  2. The session is created and archived, and its stream is deleted.
//  3. The creator makes the first stream again, and dies. That stream receives the session's appends.
//
// lastAfterRefusal removes that stream.
func (l Log) lastAfterRefusal(ctx context.Context, session events.SessionID) (events.Seq, error) {
	entry, err := l.b.readEntry(ctx, session)
	if err == nil && entry.Revision != 0 && entry.Erased.IsZero() {
		if err = l.b.removeArchivedStreams(ctx, session, entry); err == nil {
			_, err = l.makeHot(ctx, session, nil)
		}
	}
	if err != nil {
		return 0, err
	}
	return l.lastSeq(ctx, session)
}

// kindsOf lists the kinds of a commit's events, each once: a server accepts headers of 64 KiB, and a commit can have
// thousands of events.
func kindsOf(c *events.Commit) string {
	if len(c.Events) == 1 {
		return string(c.Events[0].Kind)
	}
	kinds := make([]string, 0, 8)
	for i := range c.Events {
		if kind := string(c.Events[i].Kind); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return strings.Join(kinds, ",")
}

// Last implements [events.Log]. The leader answers.
func (l Log) Last(ctx context.Context, session events.SessionID) (events.Seq, error) {
	last, err := l.lastSeq(ctx, session)
	if err == nil && last == 0 {
		err = noHistory(session)
	}
	return last, err
}

// noHistory is [events.ErrNoSession], also for a stream whose creator died before the first commit.
func noHistory(session events.SessionID) error {
	return fmt.Errorf("session %s: %w", session, events.ErrNoSession)
}

// lastSeq is [Log.Last], and 0 for a stream without commits.
func (l Log) lastSeq(ctx context.Context, session events.SessionID) (events.Seq, error) {
	loc, err := l.accepts(l.b.locateFrom(ctx, session, math.MaxUint64))
	return loc.last, err
}
