package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

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

// locate finds a session's history, as the leaders have it.
func (b *Bus) locate(ctx context.Context, session events.SessionID) (place, error) {
	if err := events.CheckToken("session", session); err != nil {
		return place{}, err
	}
	plain := b.names.sessionStream(session, 0)
	last, sealed, err := b.streamEnd(ctx, plain)
	if err == nil && last > 0 {
		return place{stream: plain, first: 1, last: last, sealed: sealed}, nil
	}
	if err != nil && !errors.Is(err, events.ErrNoSession) {
		return place{}, err
	}
	unborn := err == nil
	for {
		row, rowErr := b.archived(ctx, session)
		switch {
		case rowErr != nil:
			return place{}, rowErr
		case row.Revision == 0 && unborn:
			return place{stream: plain, first: 1}, nil
		case row.Revision == 0:
			return place{}, fmt.Errorf("session %s: %w", session, events.ErrNoSession)
		}
		p := place{stream: b.names.sessionStream(session, row.Revision), first: row.Last + 1, cold: row}
		p.last, p.sealed, err = b.streamEnd(ctx, p.stream)
		if err == nil {
			p.last = max(row.Last, p.last)
			return p, nil
		}
		if !errors.Is(err, events.ErrNoSession) {
			return place{}, err
		}
		// It is cold, or was archived once more since the row was read.
		again, err := b.archived(ctx, session)
		if err != nil {
			return place{}, err
		}
		if again.Revision == row.Revision {
			return place{last: row.Last, cold: row}, nil
		}
	}
}

// streamEnd is a stream's last sequence, as its leader has it, and whether it takes no more.
func (b *Bus) streamEnd(ctx context.Context, name string) (last events.Seq, sealed bool, err error) {
	once, cancel := b.timeout(ctx)
	defer cancel()
	stream, err := b.js.Stream(once, name)
	if err != nil {
		return 0, false, mapError(err)
	}
	info := stream.CachedInfo()
	return events.Seq(info.State.LastSeq), info.Config.Sealed, nil
}

// reopen makes a cold session hot: a stream that goes on after the archive.
// What an archiver that died left behind is removed first.
func (b *Bus) reopen(ctx context.Context, session events.SessionID, row archived) error {
	if err := b.clear(ctx, session, row); err != nil {
		return err
	}
	if err := b.roomForCold(ctx); err != nil {
		return fmt.Errorf("reopen session %s: %w", session, err)
	}
	name := b.names.sessionStream(session, row.Revision)
	cfg := b.sessionConfig(session, name)
	cfg.FirstSeq = uint64(row.Last + 1)
	if _, err := b.makeStream(ctx, cfg); err != nil {
		return fmt.Errorf("reopen session %s: %w", session, err)
	}
	// Whoever was asleep since it read the entry may have made a stream that was archived long ago.
	now, err := b.archived(ctx, session)
	if err == nil && now.Revision != row.Revision {
		err = b.deleteStream(ctx, name)
	}
	return err
}

// clear removes streams whose content is archived.
func (b *Bus) clear(ctx context.Context, session events.SessionID, row archived) error {
	if row.Stream != "" {
		if err := b.deleteStream(ctx, row.Stream); err != nil {
			return err
		}
	}
	plain := b.names.sessionStream(session, 0)
	if row.Stream == plain {
		return nil
	}
	last, _, err := b.streamEnd(ctx, plain)
	switch {
	case errors.Is(err, events.ErrNoSession):
		return nil
	case err == nil && last == 0: // of a creator that had not looked yet, and will not append
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
