package bus

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
)

// Read implements [events.Log].
func (l Log) Read(ctx context.Context, session events.SessionID, from events.Seq) iter.Seq2[events.Entry, error] {
	return l.readFrom(ctx, session, from, true)
}

// CommitAt is one commit of a session. It reads no other, unless it has to judge a plain commit of a session with keys. Errors: those of
// [Log.Read].
func (l Log) CommitAt(ctx context.Context, session events.SessionID, seq events.Seq) (events.Entry, error) {
	for entry, err := range l.readRange(ctx, session, seq, seq, true) {
		return entry, err
	}
	return events.Entry{}, fmt.Errorf("read %s at %d: %w", session, seq, events.ErrShorter)
}

// read is [Log.Read] that yields nothing for a stream without commits, nor after the end.
func (l Log) read(ctx context.Context, session events.SessionID, from events.Seq) iter.Seq2[events.Entry, error] {
	return l.readFrom(ctx, session, from, false)
}

func (l Log) readFrom(ctx context.Context, session events.SessionID, from events.Seq, mustExist bool) iter.Seq2[events.Entry, error] {
	return l.readRange(ctx, session, from, math.MaxUint64, mustExist)
}

// readRange is readFrom that ends at a sequence.
func (l Log) readRange(ctx context.Context, session events.SessionID, from, upto events.Seq, mustExist bool) iter.Seq2[events.Entry, error] {
	return func(yield func(events.Entry, error) bool) {
		loc, err := l.accepts(l.b.locateFrom(ctx, session, max(from, 1)))
		if err == nil && loc.last == 0 && mustExist {
			err = noHistory(session)
		}
		if err == nil && mustExist && from > loc.last+1 {
			err = fmt.Errorf("%s ends at %d: %w", session, loc.last, events.ErrShorter)
		}
		if err != nil {
			yield(events.Entry{}, fmt.Errorf("read: %w", err))
			return
		}
		r := rangeReader{l: l, session: session, loc: loc, next: max(from, 1), last: min(loc.last, upto)}
		if err := r.read(ctx, yield); err != nil && !errors.Is(err, errEnough) {
			yield(events.Entry{}, fmt.Errorf("read %s at %d: %w", session, r.next, err))
		}
	}
}

// rangeReader yields commits of one history, also where it has to locate the session again meanwhile: the connection was made again, the
// session was archived, or texts were removed. The history there may be another one, as of a server that was started on an earlier copy of its
// store. So it has to have the last commit that was yielded.
type rangeReader struct {
	l       Log
	session events.SessionID
	loc     location
	next    events.Seq      // to yield
	last    events.Seq      // to yield
	yielded events.CommitID // at next-1; empty: none
}

// errOldPlace ends the reading of a place where the session may not be any more.
var errOldPlace = fmt.Errorf("%w: the session has to be located again", events.ErrOutcomeUnknown)

func (r *rangeReader) read(ctx context.Context, yield func(events.Entry, error) bool) error {
	check := r.l.checkPlain(r.session, r.next)
	for at := r.next; at <= r.last; {
		var end error
		err := r.l.readLocation(ctx, r.session, r.loc, &at, r.last, func(e events.Entry, _ error) bool {
			if end = r.accept(e); end == nil && e.Seq == r.next {
				r.next, r.yielded = e.Seq+1, e.Commit.ID
				if end = check.next(ctx, e); end == nil && !yield(e, nil) {
					end = errEnough
				}
			}
			return end == nil
		})
		switch {
		case errors.Is(err, errEnough) && !errors.Is(end, errOldPlace):
			err = end
		case errors.Is(end, errOldPlace), errors.Is(err, errOldPlace), errors.Is(err, events.ErrNoSession), err != nil && r.l.b.isOld(r.session, r.loc):
			at, err = r.locateAgain(ctx)
		}
		if err != nil {
			return err
		}
	}
	return check.end(ctx)
}

// accept refuses a commit that was perhaps received from another place than the located one, or that has the sequence of the last one
// yielded, and is another.
func (r *rangeReader) accept(e events.Entry) error {
	switch {
	case r.l.b.isOld(r.session, r.loc):
		return errOldPlace
	case e.Seq < r.next && e.Commit.ID != r.yielded:
		return fmt.Errorf("%s at %d: %w", r.session, e.Seq, events.ErrShorter)
	}
	return nil
}

// locateAgain returns where the reading goes on: at the last commit that was yielded.
func (r *rangeReader) locateAgain(ctx context.Context) (at events.Seq, err error) {
	if r.loc, err = r.l.accepts(r.l.b.locate(ctx, r.session)); err != nil {
		return 0, err
	}
	if r.loc.last+1 < r.next {
		return 0, fmt.Errorf("%s ends at %d: %w", r.session, r.loc.last, events.ErrShorter)
	}
	r.last = min(r.last, r.loc.last)
	if r.yielded != "" {
		return r.next - 1, nil
	}
	return r.next, nil
}

// errEnough is a reader that stopped.
var errEnough = errors.New("enough was read")

// readAt yields the commits of a location from a sequence to last.
func (l Log) readAt(ctx context.Context, session events.SessionID, loc location, from, last events.Seq) iter.Seq2[events.Entry, error] {
	return func(yield func(events.Entry, error) bool) {
		if err := l.readLocation(ctx, session, loc, &from, last, yield); err != nil && !errors.Is(err, errEnough) {
			yield(events.Entry{}, err)
		}
	}
}

// readLocation yields the commits of a location from *next to last, and advances *next.
func (l Log) readLocation(ctx context.Context, session events.SessionID, loc location, next *events.Seq, last events.Seq,
	yield func(events.Entry, error) bool,
) error {
	deliver := func(entry events.Entry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.Seq != *next:
			return fmt.Errorf("%w: sequence %d is missing", events.ErrMalformed, *next)
		}
		*next++
		if !yield(entry, nil) {
			return errEnough
		}
		return nil
	}
	for _, r := range loc.entry.Runs {
		if r.Last < *next || r.First > last {
			continue
		}
		for entry, err := range l.b.readRun(ctx, session, r, *next) {
			if err := deliver(entry, err); err != nil {
				return err
			}
			if *next > last {
				return nil
			}
		}
	}
	if loc.stream == "" || *next > last {
		return nil
	}
	for raw, err := range l.readDirect(ctx, loc.stream, *next, last) {
		entry := events.Entry{}
		if err == nil {
			entry, err = l.b.decodeCommit(raw.seq, raw.data)
		}
		if err := deliver(entry, err); err != nil {
			return err
		}
	}
	return nil
}

// How often a reader requests a commit that the leader has counted from any replica. Then the leader says whether the history has lost it. One
// that counts the commit and does not give it may still be elected; after some seconds the message is broken on its disk.
const (
	replicaTries = 3
	brokenTries  = 20
)

type rawEntry struct {
	seq  events.Seq
	data []byte
}

// readDirect requests batches until it has last. A short batch is from a replica that is behind: it requests again.
func (l Log) readDirect(ctx context.Context, stream string, from, last events.Seq) iter.Seq2[rawEntry, error] {
	return func(yield func(rawEntry, error) bool) {
		r := &batchReader{b: l.b, stream: stream, large: last-from >= largeCommits}
		defer r.cancel()
		for try := 1; from <= last; try++ {
			missing, began := false, from
			for raw, err := range r.batch(ctx, from, last) {
				if err != nil {
					if !errors.Is(err, ErrNotFound) && !isUnknown(err) {
						yield(rawEntry{}, err)
						return
					}
					missing = errors.Is(err, ErrNotFound)
					break
				}
				if missing = raw.seq != from; missing { // the message of an earlier one was lost
					break
				}
				if !yield(raw, nil) {
					return
				}
				from++
			}
			if from > began {
				try = 0
				continue
			}
			if !missing { // servers that do not answer may have it
				try = min(try, replicaTries-1)
			}
			err := pause(ctx, try)
			if err == nil {
				err = l.b.checkDirect(ctx, stream) // the stream may have been archived
			}
			if err == nil && try >= replicaTries {
				var raw rawEntry
				if raw, err = l.decided(ctx, stream, from, try >= brokenTries); err == nil {
					if !yield(raw, nil) {
						return
					}
					from, try = from+1, 0
				}
			}
			if err != nil && (!isUnknown(err) || errors.Is(err, errOldPlace)) {
				yield(rawEntry{}, err)
				return
			}
		}
	}
}

// decided is a commit that no replica has given, as the leader has it; a bus of [OpenReader] has no right to read it there. That it is lost
// is said by one server that counts later ones: one that was a leader before and does not know it yet has fewer, and does not have those that
// the others acknowledged since. afterMany tries a commit that is counted is broken.
func (l Log) decided(ctx context.Context, stream string, seq events.Seq, afterMany bool) (rawEntry, error) {
	if !l.b.reader {
		msg, err := l.b.atLeader(ctx, stream, leaderQuery{Seq: uint64(seq)})
		if !errors.Is(err, ErrNotFound) {
			return rawEntry{seq, msg.Data}, err
		}
	}
	info, err := l.b.streamInfo(ctx, stream, jetstream.WithDeletedDetails(true))
	switch {
	case err != nil:
		return rawEntry{}, err
	case info.State.LastSeq < uint64(seq):
		return rawEntry{}, errOldPlace
	case uint64(seq) < info.State.FirstSeq || slices.Contains(info.State.Deleted, uint64(seq)):
		return rawEntry{}, fmt.Errorf("%w: sequence %d is missing", events.ErrMalformed, seq)
	case afterMany:
		return rawEntry{}, fmt.Errorf("%w: sequence %d is counted, and no server gives it", events.ErrMalformed, seq)
	}
	return rawEntry{}, fmt.Errorf("%w: no server that answers has sequence %d", events.ErrOutcomeUnknown, seq)
}

// checkDirect refuses a stream whose settings were changed: its server answers no direct reads, and a reader would wait forever.
func (b *Bus) checkDirect(ctx context.Context, stream string) error {
	info, err := b.streamInfo(ctx, stream)
	if err == nil && !info.Config.AllowDirect {
		err = fmt.Errorf("%w: stream %s does not allow direct reads: nats stream edit %s --allow-direct", events.ErrMalformed, stream, stream)
	}
	return err
}

// batchReader reads a history batch by batch. The next batch is requested while one is yielded.
type batchReader struct {
	b         *Bus
	stream    string
	large     bool
	link      link               // of sub
	sub       *nats.Subscription // receives the answers
	requested events.Seq         // first sequence of the requested batch; 0: none
	broken    bool               // a batch was incomplete: later ones carry a sequence in each message
}

// cancel drops the requested batch.
func (r *batchReader) cancel() {
	if r.sub != nil {
		_ = r.sub.Unsubscribe()
	}
	r.sub, r.requested = nil, 0
}

// batch yields commits from a sequence to last, as many as one batch has.
func (r *batchReader) batch(ctx context.Context, from, last events.Seq) iter.Seq2[rawEntry, error] {
	return func(yield func(rawEntry, error) bool) {
		if from == last { // most tails are one commit, and need no subscription
			yield(Log{b: r.b}.readOne(ctx, r.stream, from))
			return
		}
		if r.broken {
			r.b.batchWithHeaders(ctx, r.b.linkOf(r.large), r.stream, from, last, yield)
			return
		}
		list, whole, err := r.fetch(ctx, from, last)
		switch {
		case err != nil:
			yield(rawEntry{}, err)
		case !whole:
			r.broken = true
			r.cancel()
			r.b.batchWithHeaders(ctx, r.b.linkOf(r.large), r.stream, from, last, yield)
		default:
			next := from + events.Seq(len(list))
			if next < last {
				r.request(next, last) // an error shows when it is fetched
			}
			for i, data := range list {
				if !yield(rawEntry{from + events.Seq(i), data}, nil) {
					return
				}
			}
		}
	}
}

func (r *batchReader) request(from, last events.Seq) {
	if r.requested == from {
		return
	}
	if r.requested != 0 {
		r.cancel()
	}
	if r.sub == nil {
		r.link = r.b.linkOf(r.large)
		sub, err := r.link.nc.SubscribeSync(r.link.nc.NewRespInbox())
		if err != nil {
			return
		}
		r.sub = sub
	}
	r.requested = from
	_ = r.link.nc.PublishRequest(apiDirectGet+r.stream, r.sub.Subject, fmt.Appendf(nil, `{"seq":%d,"batch":%d,"max_bytes":%d,"no_hdr":true}`,
		from, min(last-from+1, batchMessages), batchBytes))
}

// fetch is the batch from a sequence on. The messages have no headers, which cost the server more than the messages.
// The end of the batch names its last sequence; whole is false where that is not the expected one.
func (r *batchReader) fetch(ctx context.Context, from, last events.Seq) (list [][]byte, whole bool, err error) {
	r.request(from, last)
	sub := r.sub
	if sub == nil {
		return nil, false, mapError(nats.ErrConnectionClosed)
	}
	r.requested = 0
	err = r.b.onceOver(ctx, r.link, r.b.cfg.Timeout, func(ctx context.Context) error {
		for {
			msg, err := sub.NextMsgWithContext(ctx)
			switch {
			case err != nil:
				return err
			case msg.Header == nil:
				list = append(list, msg.Data)
			case msg.Header.Get("Status") == "204":
				whole = msg.Header.Get("Nats-Last-Sequence") == strconv.FormatUint(uint64(from)+uint64(len(list))-1, 10)
				return nil
			case msg.Header.Get("Status") == "503":
				return nats.ErrNoResponders
			default:
				return fmt.Errorf("%w: sequence %d: %s", ErrNotFound, from, msg.Header.Get("Description"))
			}
		}
	})
	if err != nil {
		r.broken = r.broken || len(list) > 0
		r.cancel()
	}
	return list, whole && len(list) > 0, err
}

// batchWithHeaders yields one batch whose messages each have a sequence.
func (b *Bus) batchWithHeaders(ctx context.Context, l link, stream string, from, last events.Seq, yield func(rawEntry, error) bool) {
	for msg, err := range b.batchOf(ctx, l, stream, "", uint64(from), int(min(last-from+1, batchMessages))) {
		if err != nil {
			yield(rawEntry{}, err)
			return
		}
		if !yield(rawEntry{events.Seq(msg.Sequence), msg.Data}, nil) {
			return
		}
	}
}

// readOne is the commit at a sequence. Errors: [ErrNotFound] where the answering replica does not have it.
func (l Log) readOne(ctx context.Context, stream string, seq events.Seq) (rawEntry, error) {
	var data []byte
	err := l.b.once(ctx, func(ctx context.Context) error {
		msg, err := l.b.nc.RequestWithContext(ctx, apiDirectGet+stream, fmt.Appendf(nil, `{"seq":%d}`, seq))
		switch {
		case err != nil:
			return err
		case msg.Header.Get(jetstream.SequenceHeader) == strconv.FormatUint(uint64(seq), 10):
			data = msg.Data
			return nil
		}
		return fmt.Errorf("%w: sequence %d: %s", ErrNotFound, seq, msg.Header.Get("Description"))
	})
	return rawEntry{seq, data}, err
}

// CommitInFirstStream is the commit at a sequence of a session that was never archived, in one request to any replica. [ErrNotFound]
// does not mean that the session ends there: a replica that is behind may have answered. [Log.Read] finds such a
// commit, and judges one that is plain though there are keys: [events.ErrOutcomeUnknown].
func (l Log) CommitInFirstStream(ctx context.Context, session events.SessionID, seq events.Seq) (events.Entry, error) {
	raw, err := l.readOne(ctx, l.b.names.firstStream(session), seq)
	if err != nil {
		return events.Entry{}, fmt.Errorf("read %s at %d: %w", session, seq, err)
	}
	return l.b.decodeAlone(seq, raw.data)
}

// CommitIDInStream is the id of a commit in the stream of a session, whether it is plain or encrypted, in one request to any replica. Where the
// bus does not know the stream, as before it has located the session, it asks the first one. Errors: those of [Log.CommitInFirstStream].
func (l Log) CommitIDInStream(ctx context.Context, session events.SessionID, seq events.Seq) (events.CommitID, error) {
	stream := l.b.names.firstStream(session)
	if c, ok := l.b.streams.get(session); ok {
		stream = c.stream
	}
	raw, err := l.readOne(ctx, stream, seq)
	if err == nil {
		var e events.Entry
		if e, err = events.DecodeEntry(seq, raw.data); err == nil {
			return e.Commit.ID, nil
		}
	}
	return "", fmt.Errorf("read %s at %d: %w", session, seq, err)
}
