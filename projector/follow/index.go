package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/index"
)

const (
	// indexEvery is the interval at which the index row of a session with a running turn is written. The row of an idle
	// session is written with its other rows.
	indexEvery = 5 * time.Second
	// indexPause is the time without writes to the index after one failed, so that an index that cannot be written, as
	// without the right to, does not delay the other rows.
	indexPause = time.Minute
	// indexedAtOnce limits the sessions without an index row that one pass of [Archiver.Retain] indexes.
	indexedAtOnce = 2000
)

// indexing is the index row of a session in a projector.
type indexing struct {
	builder *index.Builder // nil: not loaded
	saved   events.Seq     // of the newest known row
	written time.Time      // of the last write
}

// loadIndex reads the index row of a session. Without a usable row the builder is empty.
func loadIndex(ctx context.Context, b *bus.Bus, session events.SessionID) (*index.Builder, error) {
	rows, _ := b.Index()
	stored, err := rows.Get(ctx, session)
	if err != nil {
		return nil, err
	}
	row, err := index.Decode(stored.Value)
	if stored.Revision == 0 || err != nil || row.Session != session {
		row = nil // a row of another version, or a damaged one, is made again
	}
	return index.NewBuilder(session, row), nil
}

// indexUpTo adds the commits up to the state's that the row does not have. A row whose last commit the history does not have is of lost
// commits, and is made again from the start.
func indexUpTo(ctx context.Context, log events.Log, builder *index.Builder, s *projector.State) error {
	if builder.Seq() > s.Seq || isLevel(builder, s) {
		return nil
	}
	from := builder.Seq() + 1
	if builder.Commit() != "" {
		from = builder.Seq() // to compare that commit
	}
	for entry, err := range log.Read(ctx, s.Session, from) {
		if errors.Is(err, events.ErrShorter) || err == nil && entry.Seq == builder.Seq() && !isSameCommit(builder.Commit(), entry.Commit.ID) {
			builder.Reset()
			return indexUpTo(ctx, log, builder, s)
		}
		if err != nil {
			return fmt.Errorf("index %s: %w", s.Session, err)
		}
		if entry.Seq > s.Seq {
			break
		}
		builder.Add(entry)
	}
	return nil
}

// isLevel reports whether a row has the commits of a state, as far as their last ones tell.
func isLevel(builder *index.Builder, s *projector.State) bool {
	return builder.Seq() == s.Seq && isSameCommit(builder.Commit(), s.LastCommit())
}

// isSameCommit reports whether two ids at one sequence may name one commit. An empty id is unknown, and matches every id.
func isSameCommit(a, b events.CommitID) bool { return a == "" || b == "" || a == b }

// saveIndex writes the row unless a newer one exists.
func saveIndex(ctx context.Context, b *bus.Bus, s *projector.State, builder *index.Builder) error {
	value, err := builder.Encode(indexSettings(s))
	if err != nil {
		return err
	}
	rows, _ := b.Index()
	return replace(ctx, rows, s.Session, value, func(old []byte) bool {
		have, err := index.Decode(old)
		return err != nil || have.Seq < builder.Seq() || have.Seq == builder.Seq() && !isSameCommit(have.Commit, builder.Commit())
	})
}

// indexSettings are the settings and the usage of a state, for its index row.
func indexSettings(s *projector.State) index.Settings {
	out := index.Settings{Labels: s.Labels, Model: s.Config.Model}
	for _, e := range s.Usage().Entries {
		if i := slices.IndexFunc(out.Usage, func(u events.UsageEntry) bool { return u.Model == e.Model }); i >= 0 {
			out.Usage[i].Usage = out.Usage[i].Usage.Add(e.Usage)
		} else {
			out.Usage = append(out.Usage, events.UsageEntry{Model: e.Model, Usage: e.Usage})
		}
	}
	slices.SortFunc(out.Usage, func(a, b events.UsageEntry) int { return cmp.Compare(a.Model, b.Model) })
	return out
}

// IndexRow is the index row of a state and the commits of its history, for a session whose stored row is missing.
func IndexRow(ctx context.Context, log events.Log, s *projector.State) (*index.Row, error) {
	value, err := wholeIndex(ctx, log, s)
	if err != nil {
		return nil, err
	}
	return index.Decode(value)
}

// wholeIndex encodes the index row of a session, made from all its commits up to the state's.
func wholeIndex(ctx context.Context, log events.Log, s *projector.State) ([]byte, error) {
	builder := index.NewBuilder(s.Session, nil)
	if err := indexUpTo(ctx, log, builder, s); err != nil {
		return nil, err
	}
	return builder.Encode(indexSettings(s))
}

// indexSession writes the index row of a session at its end.
func indexSession(ctx context.Context, b *bus.Bus, s *projector.State) error {
	builder, err := loadIndex(ctx, b, s.Session)
	if err == nil {
		err = indexUpTo(ctx, b.Log(), builder, s)
	}
	if err == nil {
		err = saveIndex(ctx, b, s, builder)
	}
	return err
}

// behind reports whether the row lacks commits of the state.
func (i *indexing) behind(s *projector.State) bool { return i.saved < s.Seq }

// remakeIndex writes the index row of a session from its history, whatever row is there.
func remakeIndex(ctx context.Context, b *bus.Bus, s *projector.State) error {
	value, err := wholeIndex(ctx, b.Log(), s)
	if err != nil {
		return err
	}
	rows, _ := b.Index()
	return replace(ctx, rows, s.Session, value, func([]byte) bool { return true })
}

// openIndex loads the index row of a session, so that the fold of the commits after it reads them once for both.
func (p *Projector) openIndex(ctx context.Context, session events.SessionID, at *indexing) (err error) {
	if at.builder == nil && !time.Now().Before(p.indexAgain) {
		at.builder, err = loadIndex(ctx, p.b, session)
	}
	return err
}

// follow returns what adds the commits after the state's to the row, where the row has those before.
func (i *indexing) follow(s *projector.State) func(events.Entry) {
	if i.builder == nil || !isLevel(i.builder, s) {
		return func(events.Entry) {}
	}
	return i.builder.Add
}

// writeIndex writes the index row of a session, if it is due.
func (p *Projector) writeIndex(ctx context.Context, s *projector.State, at *indexing) error {
	if !at.behind(s) || !s.Idle() && time.Since(at.written) < indexEvery || time.Now().Before(p.indexAgain) {
		return nil
	}
	err := p.openIndex(ctx, s.Session, at)
	if err == nil {
		err = indexUpTo(ctx, p.b.Log(), at.builder, s)
	}
	if err == nil {
		err = saveIndex(ctx, p.b, s, at.builder)
	}
	if err != nil {
		at.builder = nil
		return err
	}
	at.saved, at.written = s.Seq, time.Now()
	return nil
}

// tolerated is nil for an error of the index that delays only the index: the next try is after [indexPause].
func (p *Projector) tolerated(ctx context.Context, session events.SessionID, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, events.ErrNoSession) {
		return err
	}
	p.indexAgain = time.Now().Add(indexPause)
	p.log.Warn("write the index", zap.String("session", string(session)), zap.Error(err))
	return nil
}

// indexMissing indexes sessions of the directory that have no index row, as those that are older than the index.
func (a *Archiver) indexMissing(ctx context.Context, missing []events.SessionID) error {
	var failed []error // of some sessions; the others are indexed
	for _, id := range missing[:min(len(missing), indexedAtOnce)] {
		s, err := Open(ctx, a.b, id)
		if err == nil {
			err = indexSession(ctx, a.b, s)
		}
		if err = ignoreGone(err); err != nil {
			failed = append(failed, fmt.Errorf("index %s: %w", id, err))
		}
	}
	return errors.Join(failed...)
}
