package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/projector/index"
)

// cut is a source as it was at a point. Its histories end there, and what is derived from their ends is not there. A time is
// one of all sessions, a sequence or an event one of those that the command names.
type cut struct {
	source
	flag  string
	at    program.Point
	of    []events.SessionID // none: at is a time
	env   *env
	known sync.Map // ends by session
}

// cutAt is a source at the point of --at, for a command that reads these sessions; none: all.
func (e *env) cutAt(ctx context.Context, src source, of ...events.SessionID) (source, error) {
	return e.cut(ctx, src, "--at", e.source.At, of...)
}

// cut is a source at a point, which errors name by the flag; an empty point is the end. With an error it is the source
// itself: a session does not have the point.
func (e *env) cut(ctx context.Context, src source, flag string, at program.Point, of ...events.SessionID) (source, error) {
	if at == "" {
		return src, nil
	}
	if a, ok := src.(*archive); ok {
		of = []events.SessionID{a.session}
	}
	c := &cut{source: src, flag: flag, at: at, of: of, env: e}
	if _, isTime := at.Time(e.now()); isTime {
		c.of = nil
	} else if len(of) == 0 {
		return src, fmt.Errorf("%s %s: a sequence or an event is of one session: name the session, or give a time", flag, at)
	}
	for _, id := range of {
		if _, err := c.end(ctx, id); err != nil && !errors.Is(err, events.ErrNoSession) && !isDamage(err) { // the command says what these are
			return src, err
		}
	}
	return c, nil
}

// whole is a source as it is now.
func whole(src source) source {
	if c, ok := src.(*cut); ok {
		return c.source
	}
	return src
}

// isFile reports whether a source is an archive file.
func isFile(src source) bool {
	_, ok := whole(src).(*archive)
	return ok
}

// end is the last sequence of a session up to the point. Errors: [program.ErrBeforeHistory].
func (c *cut) end(ctx context.Context, id events.SessionID) (events.Seq, error) {
	if len(c.of) > 0 && !slices.Contains(c.of, id) {
		return c.source.Log().Last(ctx, id)
	}
	if seq, ok := c.known.Load(id); ok {
		return seq.(events.Seq), nil //nolint:forcetypeassert // it has no other values
	}
	seq, err := c.at.Seq(ctx, c.source.Log(), id, c.flag, c.env.now())
	if err != nil {
		return 0, err
	}
	c.known.Store(id, seq)
	return seq, nil
}

func (c *cut) Log() events.Log { return &cutLog{c.source.Log(), c} }

// Sessions lists the sessions that existed at that point.
func (c *cut) Sessions(ctx context.Context) (list []events.SessionID, err error) {
	defer c.env.NoteWait("the histories, which are read up to %s", c.at)()
	all, err := c.source.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range all {
		_, err := c.end(ctx, id)
		if errors.Is(err, program.ErrBeforeHistory) {
			continue
		}
		if err != nil && !isDamage(err) { // the command says what is wrong with one that cannot be read
			return nil, err
		}
		list = append(list, id)
	}
	return list, nil
}

func (c *cut) Names(ctx context.Context) ([]events.SessionID, error) { return c.Sessions(ctx) }

// Candidates are none: the rows are of the ends.
func (c *cut) Candidates(context.Context, *index.Plan) (map[events.SessionID]*index.Row, error) {
	return map[events.SessionID]*index.Row{}, nil
}

// Snapshot is none: it is of the end.
func (c *cut) Snapshot(context.Context, events.SessionID) (*follow.Snapshot, error) { return nil, nil }

// Row is none: it is of the end.
func (c *cut) Row(context.Context, events.SessionID) (*follow.Directory, error) {
	return nil, nil //nolint:nilnil // the caller reads the history
}

func (c *cut) State(ctx context.Context, id events.SessionID) (*projector.State, error) {
	upto, err := c.end(ctx, id)
	if err != nil {
		return nil, err
	}
	return follow.ReadAt(ctx, c.source.Log(), c.source, id, upto)
}

// cutLog is the log of a cut.
type cutLog struct {
	events.Log
	cut *cut
}

func (l *cutLog) Last(ctx context.Context, id events.SessionID) (events.Seq, error) {
	return l.cut.end(ctx, id)
}

func (l *cutLog) Read(ctx context.Context, id events.SessionID, from events.Seq) iter.Seq2[events.Entry, error] {
	return func(yield func(events.Entry, error) bool) {
		last, err := l.cut.end(ctx, id)
		if err != nil {
			yield(events.Entry{}, err)
			return
		}
		for entry, err := range l.Log.Read(ctx, id, from) {
			if err == nil && entry.Seq > last || !yield(entry, err) {
				return
			}
		}
	}
}
