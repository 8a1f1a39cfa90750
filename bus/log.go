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

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
)

// Headers of a commit, so that any NATS tool can read a stream.
const (
	headerKinds  = "Lash-Kinds"
	headerFormat = "Lash-Format"
	headerSeq    = "Nats-Sequence" // of republished messages
)

// Log is every session's history, one stream each. It implements [events.Log].
type Log struct{ b *Bus }

// Log is the histories on this bus.
func (b *Bus) Log() Log { return Log{b} }

// Append implements [events.Log]. At 0 it creates the session's stream.
func (l Log) Append(ctx context.Context, c *events.Commit, at events.Seq) (events.Seq, error) {
	data, err := events.Encode(c)
	if err != nil {
		return 0, err
	}
	if at > 0 {
		return l.settle(ctx, c, data, at)
	}
	err = l.create(ctx, c.Session)
	if errors.As(err, new(*events.ConflictError)) {
		if err = l.begins(ctx, c, err); err == nil {
			return 1, nil
		}
	}
	if err != nil {
		return 0, fmt.Errorf("append to %s: %w", c.Session, err)
	}
	return l.first(ctx, c, data)
}

// first appends the first commit. The stream that took it may be the empty one
// of a dead creator, where this one was suspended since it looked, and the session was
// created and archived meanwhile: then the commit is taken back with its stream.
func (l Log) first(ctx context.Context, c *events.Commit, data []byte) (events.Seq, error) {
	seq, err := l.settle(ctx, c, data, 0)
	conflicts := errors.As(err, new(*events.ConflictError))
	if err != nil && !conflicts {
		return 0, err
	}
	row, rowErr := l.b.archived(ctx, c.Session)
	if conflicts {
		if rowErr != nil || row.Revision == 0 {
			return 0, errors.Join(err, rowErr)
		}
		if rowErr = l.b.clear(ctx, c.Session, row); rowErr != nil { // the stream that refused it is not the session's
			return 0, errors.Join(err, rowErr)
		}
		if err = l.begins(ctx, c, err); err != nil {
			return 0, err
		}
		return 1, nil
	}
	err = rowErr
	plain := l.b.names.firstStream(c.Session)
	if err == nil && (row.Last == 0 || row.Next == plain || !row.Erased.IsZero()) {
		return seq, nil
	}
	if err == nil {
		err = l.firstOf(ctx, c, place{cold: row}, &events.ConflictError{Session: c.Session, Last: row.Last})
	}
	switch {
	case err == nil && row.Stream == plain: // it may be the session's own, of which an archiver is about to dispose
		err = l.b.clear(ctx, c.Session, row)
	case err == nil, errors.As(err, new(*events.ConflictError)):
		err = errors.Join(err, l.b.deleteStream(ctx, plain))
	}
	if err != nil {
		return 0, fmt.Errorf("append to %s: %w", c.Session, err)
	}
	return seq, nil
}

// settle appends a commit to a session that is there.
func (l Log) settle(ctx context.Context, c *events.Commit, data []byte, at events.Seq) (events.Seq, error) {
	seq, err := events.Settle(ctx, events.Publication{
		Commit:  c,
		At:      at,
		Publish: func(ctx context.Context) (events.Seq, error) { return l.publish(ctx, c, data, at) },
		Read: func(ctx context.Context, from events.Seq) iter.Seq2[events.Entry, error] {
			return l.read(ctx, c.Session, from)
		},
		Last: func(ctx context.Context) (events.Seq, error) { return l.lastRefused(ctx, c.Session) },
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

// create makes the stream of a session that does not exist. One that was
// archived exists, and one that is hot answers the append itself.
func (l Log) create(ctx context.Context, session events.SessionID) error {
	plain := l.b.names.firstStream(session)
	for made := false; ; made = true { // the second look finds what was archived before the stream was made
		row, err := l.b.archived(ctx, session)
		switch {
		case err != nil:
			return err
		case row.Revision != 0:
			if made {
				err = l.b.clear(ctx, session, row)
			}
			return errors.Join(l.refuse(ctx, session, row), err)
		case made:
			return nil
		}
		if err = l.b.roomForNew(ctx, session); err == nil {
			err = l.b.makeStream(ctx, l.b.sessionConfig(session, plain))
		}
		if err != nil {
			return err
		}
	}
}

// begins is nil where a history begins with a commit, as it does where its creation is repeated, and else otherwise.
func (l Log) begins(ctx context.Context, c *events.Commit, otherwise error) error {
	p, err := l.b.locate(ctx, c.Session)
	if err != nil {
		return fmt.Errorf("%w: %w", events.ErrOutcomeUnknown, err)
	}
	return l.firstOf(ctx, c, p, otherwise)
}

// firstOf is [Log.begins] of a history that stands at a place.
func (l Log) firstOf(ctx context.Context, c *events.Commit, p place, otherwise error) error {
	for entry, err := range l.readHere(ctx, c.Session, p, 1, 1) {
		if err != nil {
			return fmt.Errorf("%w: %w", events.ErrOutcomeUnknown, err)
		}
		if entry.Commit.ID == c.ID {
			return nil
		}
		break
	}
	return otherwise
}

// refuse is what becomes of the creation of a session that is, or was, among the archives.
// A first commit must reach no other stream than the session's: any empty stream accepts it.
func (l Log) refuse(ctx context.Context, session events.SessionID, row archived) error {
	switch {
	case !row.Erased.IsZero():
		return row.Erased.refuse(session)
	case row.Last > 0:
		last, err := l.last(ctx, session)
		if err == nil {
			err = &events.ConflictError{Session: session, Last: max(last, row.Last)}
		}
		return err
	case row.Next == l.b.names.firstStream(session):
		return nil // it answers
	}
	for try := 1; ; try++ { // it never had a commit, and its first stream is gone
		err := l.warm(ctx, session, nil)
		if err == nil {
			err = pause(ctx, try)
		}
		if errors.Is(err, errWarmed) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Conflicts is how many appends on this bus found that their session had moved.
func (b *Bus) Conflicts() int64 { return b.conflicts.Load() }

// errWarmed is a publish that met a cold session, which is hot now.
var errWarmed = fmt.Errorf("%w: the session was cold", events.ErrOutcomeUnknown)

// publish tries once, and at once again where the session was cold.
func (l Log) publish(ctx context.Context, c *events.Commit, data []byte, at events.Seq) (events.Seq, error) {
	msg := &nats.Msg{Subject: l.b.names.commit(c), Data: data, Header: nats.Header{
		jetstream.MsgIDHeader:           {string(c.ID)},
		jetstream.ExpectedLastSeqHeader: {strconv.FormatUint(uint64(at), 10)},
		headerKinds:                     {kindsOf(c)},
		headerFormat:                    {strconv.Itoa(events.FormatVersion)},
	}}
	seq, err := l.publishOnce(ctx, c.Session, msg)
	if errors.Is(err, errWarmed) {
		seq, err = l.publishOnce(ctx, c.Session, msg)
	}
	return seq, err
}

func (l Log) publishOnce(ctx context.Context, session events.SessionID, msg *nats.Msg) (events.Seq, error) {
	var ack *jetstream.PubAck
	err := l.b.once(ctx, func(ctx context.Context) (err error) {
		ack, err = l.b.js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
		return err
	})
	switch {
	case err == nil:
		return events.Seq(ack.Sequence), nil
	case isUnheard(err), errors.Is(err, events.ErrSealed):
		err = l.warm(ctx, session, err)
	}
	return 0, err
}

// warm is for a publish that nobody listened to, or that met a sealed stream:
// the session does not exist, or is cold, or is being archived, by somebody who
// may be dead, or its stream has no leader just now. What is archived becomes
// hot, and the append is to be tried again.
func (l Log) warm(ctx context.Context, session events.SessionID, otherwise error) error {
	if errors.Is(otherwise, events.ErrSealed) {
		otherwise = fmt.Errorf("%w: the session was being archived", events.ErrOutcomeUnknown)
	}
	p, err := l.b.locate(ctx, session)
	if err == nil && p.sealed {
		if err = l.b.Archive(ctx, session, 0); err == nil {
			err = l.b.Discard(ctx, session)
		}
		if errors.As(err, new(*events.ConflictError)) {
			return otherwise // it is hot again
		}
		if err == nil {
			p, err = l.b.locate(ctx, session)
		}
	}
	if err == nil && p.stream == "" {
		if err = l.b.clear(ctx, session, p.cold); err == nil {
			err = l.b.reopen(ctx, session, p.cold)
		}
		if err == nil {
			p, err = l.b.locate(ctx, session)
		}
	}
	switch {
	case errors.Is(err, events.ErrNoSession), errors.Is(err, ErrFull):
		return err // nothing was written, nor will be soon
	case err != nil || p.cold.Next == "":
		return otherwise
	case l.b.bind(ctx, session, p.cold) != nil:
		return otherwise
	}
	return errWarmed
}

// lastRefused is [Log.last] for an append that was refused though no commit
// follows. An empty stream may have refused it: a creator found no session,
// paused while the session was created, archived and its stream deleted, then
// made the stream again and died. That stream receives the session's appends; it is removed here.
func (l Log) lastRefused(ctx context.Context, session events.SessionID) (events.Seq, error) {
	row, err := l.b.archived(ctx, session)
	if err == nil && row.Revision != 0 && row.Erased.IsZero() {
		if err = l.b.clear(ctx, session, row); err == nil {
			err = l.warm(ctx, session, nil)
		}
		if errors.Is(err, errWarmed) {
			err = nil
		}
	}
	if err != nil {
		return 0, err
	}
	return l.last(ctx, session)
}

// kindsOf lists the kinds of a commit's events, each once: a server takes headers of 64 KiB, and a commit has up to thousands of events.
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
	last, err := l.last(ctx, session)
	if err == nil && last == 0 {
		err = noHistory(session)
	}
	return last, err
}

// noHistory is a stream whose creator died before the first commit: there is no session.
func noHistory(session events.SessionID) error {
	return fmt.Errorf("session %s: %w", session, events.ErrNoSession)
}

// last is [Log.Last], and 0 for a stream without commits.
func (l Log) last(ctx context.Context, session events.SessionID) (events.Seq, error) {
	p, err := l.b.locateFrom(ctx, session, math.MaxUint64)
	return p.last, err
}
