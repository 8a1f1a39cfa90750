package watch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

const (
	// liveBuffer is how many messages an observer may be behind. What comes
	// then is dropped here and read back later, so nobody waits for it.
	liveBuffer = 256
	// firstLook is the wait of a new observer before it reads the log again.
	firstLook = time.Second
	// quietLook is how long an observer trusts the silence of the live subject.
	quietLook = 5 * time.Second
	// observeRetry is the wait before the log is asked again that did not answer.
	observeRetry = 200 * time.Millisecond
)

// errEnough is an observer that wants no more.
var errEnough = errors.New("the observer has enough")

// Observe yields a session's commits after cursor (0: from the start), each
// once and in order without holes, and between them the deltas of the reply in
// flight, until ctx ends or the loop does. How slow the loop is matters to
// nobody else: what it misses is read back from the log, and from the delta
// stream as long as that keeps it; a [api.Gap] tells where it does not. Deltas of
// a reply come before the commit that records it or not at all. Who joins late
// gets the newest attempt's deltas from its beginning.
//
// The error is terminal: the cause of ctx's end, [events.ErrNoSession],
// [*api.CursorError], those of [events.Log.Read]. Once it has begun it waits while the servers do not answer.
func (w *Watcher) Observe(ctx context.Context, id events.SessionID, cursor events.Seq) iter.Seq2[api.Observed, error] {
	return func(yield func(api.Observed, error) bool) {
		o := &observer{w: w, session: id, seq: cursor, yield: yield}
		err := o.run(ctx)
		switch {
		case errors.Is(err, errEnough):
		case ctx.Err() != nil:
			yield(api.Observed{}, context.Cause(ctx))
		default:
			yield(api.Observed{}, fmt.Errorf("observe %s: %w", id, err))
		}
	}
}

// observer is one run of [Watcher.Observe].
type observer struct {
	w       *Watcher
	session events.SessionID
	yield   func(api.Observed, error) bool
	seq     events.Seq // of the last commit delivered
	reply   streaming
	dropped int // messages that found the buffer full, as far as that was made up for
}

// run subscribes before it reads, so that nothing is between the two.
func (o *observer) run(ctx context.Context) error {
	live, err := o.w.b.Live(o.session, liveBuffer)
	if err != nil {
		return err
	}
	defer live.Close()
	s, err := o.w.reader.State(ctx, o.session)
	if err != nil {
		return err
	}
	if o.seq > s.Seq {
		return &api.CursorError{Session: o.session, Cursor: o.seq, Last: s.Seq}
	}
	o.reply = streamingOf(s)
	if o.seq < s.Seq {
		if err := o.catchUp(ctx); err != nil {
			return err
		}
	}
	if err := o.late(ctx); err != nil {
		return err
	}
	return o.follow(ctx, live)
}

// emit hands one thing over.
func (o *observer) emit(seen api.Observed) error {
	if !o.yield(seen, nil) {
		return errEnough
	}
	return nil
}

func (o *observer) commit(ctx context.Context, e events.Entry) error {
	o.seq = e.Seq
	o.reply.commit(e)
	if err := o.emit(api.Observed{Seq: e.Seq, Commit: e.Commit}); err != nil {
		return err
	}
	return o.stillReached(ctx, e.Commit)
}

// stillReached ends the observation at the commit that takes the caller's grant
// back. It looks at the newest state: a grant that was taken back before the
// cursor's time may have been given again.
func (o *observer) stillReached(ctx context.Context, c *events.Commit) error {
	if slices.ContainsFunc(c.Events, func(ev events.Event) bool { return ev.Kind == events.KindSessionGranted }) {
		return o.w.reader.Reached(ctx, o.session)
	}
	return nil
}

// catchUp delivers what the log holds after the last commit delivered.
func (o *observer) catchUp(ctx context.Context) error {
	for {
		err := o.read(ctx)
		if !errors.Is(err, events.ErrOutcomeUnknown) || ctx.Err() != nil {
			return err
		}
		if !bus.Sleep(ctx, observeRetry) {
			return context.Cause(ctx)
		}
	}
}

func (o *observer) read(ctx context.Context) error {
	for entry, err := range o.w.log.Read(ctx, o.session, o.seq+1) {
		if err != nil {
			return err
		}
		if err := o.commit(ctx, entry); err != nil {
			return err
		}
	}
	return nil
}

// follow delivers what is heard. Silence is not trusted for long: the last
// commit may be the one that was lost.
func (o *observer) follow(ctx context.Context, live *bus.Live) error {
	look := time.NewTimer(firstLook)
	defer look.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case msg := <-live.C:
			err = o.heard(ctx, bus.ParseLive(msg), look)
			if err == nil && len(live.C) == 0 {
				err = o.makeUp(ctx, live.Dropped())
			}
		case <-live.Back:
			err = o.catchUp(ctx)
		case <-look.C:
			err = o.catchUp(ctx)
			look.Reset(quietLook)
		}
		if err != nil {
			return err
		}
	}
}

func (o *observer) heard(ctx context.Context, m bus.LiveMessage, look *time.Timer) error {
	if m.Seq == 0 {
		return o.heardDelta(ctx, m.Data)
	}
	look.Reset(quietLook)
	return o.heardCommit(ctx, m)
}

// makeUp reads what was dropped at the end, where no hole tells of it.
func (o *observer) makeUp(ctx context.Context, dropped int) error {
	if dropped == o.dropped {
		return nil
	}
	o.dropped = dropped
	if err := o.catchUp(ctx); err != nil {
		return err
	}
	return o.late(ctx)
}

func (o *observer) heardCommit(ctx context.Context, m bus.LiveMessage) error {
	if m.Seq <= o.seq {
		return nil
	}
	c, err := events.Decode(m.Data)
	if err != nil || m.Seq > o.seq+1 {
		return o.catchUp(ctx) // the log knows better
	}
	return o.commit(ctx, events.Entry{Seq: m.Seq, Commit: c, Data: m.Data})
}

func (o *observer) heardDelta(ctx context.Context, data []byte) error {
	var d api.Delta
	if events.DecodePayload(data, &d) != nil {
		return nil // never truth
	}
	if !d.Message.IsZero() {
		return o.message(ctx, &d)
	}
	if o.reply.judge(&d) == deltaAhead { // the commit between was not heard
		if err := o.catchUp(ctx); err != nil {
			return err
		}
	}
	if o.reply.judge(&d) == deltaHole {
		if err := o.late(ctx); err != nil {
			return err
		}
	}
	return o.delta(&d)
}

// message delivers what running code says, in the turn that it runs in.
func (o *observer) message(ctx context.Context, d *api.Delta) error {
	if d.Turn != o.reply.turn && d.Turn != o.reply.ended || d.Turn == o.reply.turn && d.Iteration >= o.reply.iteration {
		if err := o.catchUp(ctx); err != nil { // the commit between was not heard
			return err
		}
	}
	if d.Turn != o.reply.turn {
		return nil
	}
	return o.emit(api.Observed{Delta: d})
}

// delta delivers d if it is wanted, with the gap before it.
func (o *observer) delta(d *api.Delta) error {
	switch o.reply.judge(d) {
	case deltaHole:
		if err := o.emit(api.Observed{Gap: &api.Gap{Turn: d.Turn, Iteration: d.Iteration}}); err != nil {
			return err
		}
	case deltaNext:
	case deltaOld, deltaAhead:
		return nil
	}
	o.reply.delivered(d)
	return o.emit(api.Observed{Delta: d})
}

// late delivers what the delta stream keeps of the reply in flight and was not
// delivered. An error is not worth ending for: it is a gap.
func (o *observer) late(ctx context.Context) error {
	if o.reply.turn == "" {
		return nil
	}
	var list []*api.Delta
	var newest try
	for stored, err := range o.w.b.Deltas(ctx, o.session, o.reply.turn, o.reply.from) {
		if err != nil {
			break
		}
		d := &api.Delta{}
		if events.DecodePayload(stored.Data, d) != nil || !d.Message.IsZero() || d.Iteration > o.reply.iteration {
			continue
		}
		o.reply.from = stored.Seq + 1
		if d.Iteration == o.reply.iteration {
			list = append(list, d)
			if tryOf(d).compare(newest) > 0 {
				newest = tryOf(d)
			}
		}
	}
	for _, d := range list {
		if tryOf(d) != newest {
			continue // retracted
		}
		if err := o.delta(d); err != nil {
			return err
		}
	}
	return nil
}
