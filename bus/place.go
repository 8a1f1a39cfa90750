package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/events"
)

// place is where a session's history stands just now: archived runs, then a stream.
type place struct {
	stream string     // of a hot session; empty: it is cold
	first  events.Seq // of the stream
	last   events.Seq // of the session; 0: there is a stream and no commit
	sealed bool       // the stream: somebody began to archive it
	cold   archived   // what comes before the stream
}

// locate finds a session's history, as the leaders have it. One that was erased
// is an [events.ErasedError].
func (b *Bus) locate(ctx context.Context, session events.SessionID) (place, error) {
	if err := events.CheckToken("session", session); err != nil {
		return place{}, err
	}
	p := place{stream: b.names.firstStream(session), first: 1}
	end, err := b.streamEnd(ctx, p.stream)
	p.last, p.sealed = end.last, end.sealed
	if err == nil && p.last > 0 && !end.sealed && !end.opening {
		return p, nil
	}
	if err != nil && !errors.Is(err, events.ErrNoSession) {
		return place{}, err
	}
	row, rowErr := b.archived(ctx, session)
	switch {
	case rowErr != nil:
		return place{}, rowErr
	case row.Revision != 0:
		return b.follow(ctx, session, row)
	case err != nil:
		return place{}, noHistory(session)
	}
	return p, nil
}

// follow is [Bus.locate] of a session of which something is archived.
func (b *Bus) follow(ctx context.Context, session events.SessionID, row archived) (p place, err error) {
	for try := 1; ; try++ {
		p = place{last: row.Last, cold: row}
		switch {
		case !row.Erased.IsZero():
			return p, row.Erased.refuse(session)
		case row.Next == "":
			return p, nil
		}
		end, err := b.streamEnd(ctx, row.Next)
		if err == nil {
			p.stream, p.first, p.last, p.sealed = row.Next, row.Last+1, max(row.Last, end.last), end.sealed
			b.hints.put(session, hint{p.stream, p.first})
			return p, nil
		}
		if !errors.Is(err, events.ErrNoSession) {
			return place{}, err
		}
		again, err := b.archived(ctx, session)
		if err == nil && again.Revision == row.Revision { // else it was archived once more
			if err = b.remake(ctx, session, again); err == nil {
				again, err = b.archived(ctx, session)
			}
			err = errors.Join(err, pause(ctx, try))
		}
		if err != nil {
			return place{}, err
		}
		row = again
	}
}

// remake makes the stream of a hot session that its server does not have, with
// all that is on the server's disk of it. A single server (nats-server 2.15.2) that was killed
// while it wrote down new settings of a stream, between two files, skips the stream at every later start:
// until it is made again, and then gets other settings, as [Bus.bind] does.
//
// A seal may be among what the server lost. So the entry is put as it is before: an archiver
// that saw the seal finds it moved. Where it has moved already nothing is made.
func (b *Bus) remake(ctx context.Context, session events.SessionID, row archived) error {
	if b.reader {
		return fmt.Errorf("%w: the server lacks stream %s of session %s; a node that comes to the session makes it again, with what the disk has",
			events.ErrOutcomeUnknown, row.Next, session)
	}
	cfg := b.openingConfig(session, row, ulid.Make().String())
	cfg.Name = row.Next
	err := b.putArchived(ctx, session, &row)
	if err == nil {
		err = b.makeStream(ctx, cfg)
	}
	if err != nil && !errors.Is(err, ErrStale) {
		return fmt.Errorf("make the stream of %s again: %w", session, err)
	}
	return nil
}

// streamInfo is a stream as its leader has it. While there is none any member
// answers, with what it has: that is [events.ErrOutcomeUnknown].
func (b *Bus) streamInfo(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	var stream jetstream.Stream
	err := b.once(ctx, func(ctx context.Context) (err error) {
		stream, err = b.js.Stream(ctx, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	info := stream.CachedInfo()
	if info.Cluster != nil && info.Cluster.Leader == "" {
		return nil, fmt.Errorf("%w: stream %s has no leader", events.ErrOutcomeUnknown, name)
	}
	return info, nil
}

// streamEnd is where a stream ends.
type streamEnd struct {
	last    events.Seq
	sealed  bool // it takes no more appends
	opening bool // it takes none yet
}

func (b *Bus) streamEnd(ctx context.Context, name string) (streamEnd, error) {
	info, err := b.streamInfo(ctx, name)
	if err != nil {
		return streamEnd{}, err
	}
	return streamEnd{
		last: events.Seq(info.State.LastSeq), sealed: info.Config.Sealed,
		opening: slices.ContainsFunc(info.Config.Subjects, b.names.isOpening),
	}, nil
}

// reopen makes a cold session hot, unless somebody else did: a stream that goes
// on after the archive. It takes no appends before the entry names it, so one
// that is made by somebody who slept through other lives of the session is
// never appended to.
func (b *Bus) reopen(ctx context.Context, session events.SessionID, row archived) error {
	cfg := b.openingConfig(session, row, ulid.Make().String())
	err := b.roomForCold(ctx)
	if err == nil {
		err = b.makeStream(ctx, cfg)
	}
	if err != nil {
		return fmt.Errorf("reopen session %s: %w", session, err)
	}
	row.Next = cfg.Name
	err = b.putArchived(ctx, session, &row)
	if errors.Is(err, ErrStale) {
		now, err := b.archived(ctx, session)
		if err != nil || now.Next == cfg.Name {
			return err
		}
		return b.deleteStream(ctx, cfg.Name)
	}
	return err
}

// openingConfig is a session's next stream before it takes appends.
func (b *Bus) openingConfig(session events.SessionID, row archived, nonce string) jetstream.StreamConfig {
	cfg := b.sessionConfig(session, b.names.nextStream(session, nonce))
	cfg.FirstSeq, cfg.Subjects = uint64(row.Last+1), []string{b.names.opening(session, nonce)}
	return cfg
}

// bind lets a session's next stream take its appends. A stream that is gone was archived meanwhile.
func (b *Bus) bind(ctx context.Context, session events.SessionID, row archived) error {
	if err := b.clear(ctx, session, row); err != nil {
		return err
	}
	info, err := b.streamInfo(ctx, row.Next)
	if err != nil {
		return err
	}
	cfg := info.Config
	want := []string{b.names.sessionAll(session)}
	if cfg.Sealed || slices.Equal(cfg.Subjects, want) {
		return nil
	}
	now, err := b.archived(ctx, session) // the stream may be one that was made again too late
	if err == nil && now.Next != row.Next {
		err = ErrStale
	}
	if err != nil {
		return err
	}
	cfg.Subjects = want
	return b.once(ctx, func(ctx context.Context) error {
		_, err := b.js.UpdateStream(ctx, cfg)
		return err
	})
}

// unbegunFor is how long a stream without commits is left to its creator, by the server's clock.
const unbegunFor = 10 * time.Minute

// Forsaken finishes or removes the streams of processes that died while they
// created a session or made it hot. A process that is only slow begins again.
func (b *Bus) Forsaken(ctx context.Context) error {
	now, err := b.Now(ctx)
	if err != nil {
		return err
	}
	for hot, err := range b.Hot(ctx) {
		if err == nil && hot.Last == 0 && now.Sub(hot.Moved) > unbegunFor {
			err = b.unbegun(ctx, hot.ID)
		}
		if err != nil {
			return fmt.Errorf("remove forsaken streams: %w", err)
		}
	}
	for name, err := range listStreams[string](ctx, b, apiStreamNames, b.names.openingAll()) {
		if err != nil {
			return fmt.Errorf("remove forsaken streams: %w", err)
		}
		id, ok := b.names.sessionOf(name)
		if !ok {
			continue
		}
		if err := b.forsaken(ctx, id, name); err != nil && !errors.Is(err, ErrStale) {
			return fmt.Errorf("remove forsaken streams: %w", err)
		}
	}
	return nil
}

// forsaken decides about a stream that takes no appends yet. One that the entry
// does not name is deleted after the entry was put as it is: so nobody can name it
// any more, however late the delete comes.
func (b *Bus) forsaken(ctx context.Context, session events.SessionID, name string) error {
	row, err := b.archived(ctx, session)
	switch {
	case err != nil:
		return err
	case row.Next == name && row.Erased.IsZero():
		return b.bind(ctx, session, row)
	case row.Revision != 0:
		if err := b.putArchived(ctx, session, &row); err != nil {
			return err
		}
	}
	return b.deleteStream(ctx, name)
}

// unbegun removes a session's first stream, which has no commit. It is archived like any other, as its creator may only be slow, and a name that was
// deleted is not used again: the server (nats-server 2.15.2) may delete the files of a stream that
// is made while the one before of its name is deleted.
func (b *Bus) unbegun(ctx context.Context, session events.SessionID) error {
	err := b.Archive(ctx, session, 0)
	if err == nil {
		err = b.Discard(ctx, session)
	}
	if errors.As(err, new(*events.ConflictError)) || errors.Is(err, events.ErrNoSession) {
		return nil // it has a commit now, or another process removed it
	}
	return err
}

// clear removes streams whose content is archived.
func (b *Bus) clear(ctx context.Context, session events.SessionID, row archived) error {
	if row.Stream != "" {
		there, err := b.compare(ctx, session, row)
		if err == nil && there {
			err = b.deleteStream(ctx, row.Stream)
		}
		if err != nil {
			return err
		}
	}
	plain := b.names.firstStream(session)
	if row.Stream == plain || row.Next == plain {
		return nil
	}
	end, err := b.streamEnd(ctx, plain)
	switch {
	case errors.Is(err, events.ErrNoSession):
		return nil
	case err == nil && (end.last == 0 || row.Last > 0):
		// Of a creator that had not looked yet. What is in it is not of the session, which is archived and goes on
		// elsewhere: nats-server 2.15.2 may give a new stream the messages of one of its name that is just being deleted.
		return b.deleteStream(ctx, plain)
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
