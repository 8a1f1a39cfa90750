package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
			return p, nil
		}
		if !errors.Is(err, events.ErrNoSession) {
			return place{}, err
		}
		again, err := b.archived(ctx, session)
		if err == nil && again.Revision == row.Revision {
			if err = b.remake(ctx, session, row); err == nil {
				err = pause(ctx, try)
			}
		}
		if err != nil {
			return place{}, err
		}
		row = again // otherwise it was archived once more since the row was read
	}
}

// remake makes the stream of a hot session that its server does not have, with
// all that is on the server's disk of it. A single server (nats-server 2.15.2) that was killed
// while it wrote down new settings of a stream, between two files, skips the stream at every later start:
// until it is made again, and then gets other settings, as [Bus.bind] does. Made too late, after the
// session was archived, the stream is never appended to.
func (b *Bus) remake(ctx context.Context, session events.SessionID, row archived) error {
	cfg := b.openingConfig(session, row, "again")
	cfg.Name = row.Next
	if err := b.makeStream(ctx, cfg); err != nil {
		return fmt.Errorf("make the stream of %s again: %w", session, err)
	}
	return nil
}

// streamEnd is where a stream ends, as its leader has it.
type streamEnd struct {
	last    events.Seq
	sealed  bool // it takes no more appends
	opening bool // it takes none yet
}

func (b *Bus) streamEnd(ctx context.Context, name string) (streamEnd, error) {
	once, cancel := b.timeout(ctx)
	defer cancel()
	stream, err := b.js.Stream(once, name)
	if err != nil {
		return streamEnd{}, mapError(err)
	}
	info := stream.CachedInfo()
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
	once, cancel := b.timeout(ctx)
	defer cancel()
	stream, err := b.js.Stream(once, row.Next)
	if err != nil {
		return mapError(err)
	}
	cfg := stream.CachedInfo().Config
	want := []string{b.names.sessionAll(session)}
	if cfg.Sealed || slices.Equal(cfg.Subjects, want) {
		return nil
	}
	cfg.Subjects = want
	_, err = b.js.UpdateStream(once, cfg)
	return mapError(err)
}

// Forsaken removes what those left behind who died while they made a session
// hot. Where one is at it just now, it begins again.
func (b *Bus) Forsaken(ctx context.Context) error {
	for name, err := range listStreams[string](ctx, b, apiStreamNames, b.names.openingAll()) {
		if err != nil {
			return fmt.Errorf("remove forsaken streams: %w", err)
		}
		id, ok := b.names.sessionOf(name)
		if !ok {
			continue
		}
		row, err := b.archived(ctx, id)
		if err == nil && row.Next != name {
			err = b.deleteStream(ctx, name)
		}
		if err != nil {
			return fmt.Errorf("remove forsaken streams: %w", err)
		}
	}
	return nil
}

// clear removes streams whose content is archived.
func (b *Bus) clear(ctx context.Context, session events.SessionID, row archived) error {
	if row.Stream != "" {
		if err := b.deleteStream(ctx, row.Stream); err != nil {
			return err
		}
	}
	plain := b.names.firstStream(session)
	if row.Stream == plain {
		return nil
	}
	end, err := b.streamEnd(ctx, plain)
	switch {
	case errors.Is(err, events.ErrNoSession):
		return nil
	case err == nil && end.last == 0: // of a creator that had not looked yet, and will not append
		return b.deleteStream(ctx, plain)
	}
	return err
}

func (b *Bus) deleteStream(ctx context.Context, name string) error {
	err := b.retry(ctx, "delete stream "+name, func(ctx context.Context) error {
		err := b.js.DeleteStream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		return err
	})
	return mapError(err)
}
