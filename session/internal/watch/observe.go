package watch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

const (
	// liveBuffer is the number of messages that an observer may be behind. The NATS client drops further messages,
	// and the observer reads them later, so no publisher waits.
	liveBuffer = 256
	// firstCheck is the wait of a new observer before it reads the log again.
	firstCheck = time.Second
	// quietCheck is the time without live commits after which an observer reads the log. A caller whose grant was withdrawn, and a reader
	// of what was redacted or erased, get nothing after two seconds, also where the message about it is lost.
	quietCheck = 1500 * time.Millisecond
	// observeRetry is the wait before the next read of a log that did not answer.
	observeRetry = 200 * time.Millisecond
)

// errEnough ends an observation whose loop ended.
var errEnough = errors.New("the observer has enough")

// Observe yields a session's commits after cursor (0: from the start), each once, in order and without gaps, and
// between them the deltas of the reply in progress, until ctx or the loop ends. A slow loop delays no publisher: the
// observer reads missed commits from the log, and missed deltas from the delta stream while that has them. An
// [api.Gap] marks lost deltas. Deltas of a reply come before the commit that records it or not at all. A late
// observer gets the newest attempt's deltas from its start.
//
// The error is terminal: the cause of ctx's end, [events.ErrNoSession], [*api.CursorError], those of
// [events.Log.Read]. After its first state the observer waits while the servers do not answer.
//
// Where the history is replaced, as after lost commits were accepted, or redacted, the observation ends with [*api.CursorError] before it
// yields a commit of the new one. A cursor is a number alone: an observation that starts at a cursor of the replaced history, where the
// new one is as long, does not notice it.
func (w *Watcher) Observe(ctx context.Context, id events.SessionID, cursor events.Seq) iter.Seq2[api.Observed, error] {
	return func(yield func(api.Observed, error) bool) {
		o := &observer{w: w, session: id, history: history{log: w.log, session: id, seq: cursor}, yield: yield}
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
	history history
	reply   replyProgress
	dropped int // messages that found the buffer full and whose commits were read from the log
}

// run subscribes before it reads, so that no commit is missed between the two.
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
	if o.history.seq > s.Seq {
		return &api.CursorError{Session: o.session, Cursor: o.history.seq, Last: s.Seq}
	}
	o.reply = replyProgressOf(s)
	o.history.incarnation = s.Incarnation()
	if o.history.seq == s.Seq {
		o.history.commit, o.history.doubtful = s.LastCommit(), s.LastCommit() == ""
	}
	if o.history.seq < s.Seq || o.history.doubtful {
		if err := o.catchUp(ctx); err != nil {
			return err
		}
	}
	if err := o.readDeltas(ctx); err != nil {
		return err
	}
	return o.follow(ctx, live)
}

// emit yields one observation.
func (o *observer) emit(seen api.Observed) error {
	if !o.yield(seen, nil) {
		return errEnough
	}
	return nil
}

func (o *observer) commit(ctx context.Context, e events.Entry) error {
	o.history.delivered(e)
	o.reply.commit(e)
	if err := o.emit(api.Observed{Seq: e.Seq, Commit: e.Commit}); err != nil {
		return err
	}
	return o.checkGrant(ctx, e.Commit)
}

// checkGrant ends the observation at the commit that revokes the caller's grant. It checks the newest state,
// because a later commit may have restored the grant.
func (o *observer) checkGrant(ctx context.Context, c *events.Commit) error {
	if slices.ContainsFunc(c.Events, func(ev events.Event) bool { return ev.Kind == events.KindSessionGranted }) {
		return o.w.reader.Authorize(ctx, o.session)
	}
	return nil
}

// catchUp delivers the commits of the log after the last one delivered.
func (o *observer) catchUp(ctx context.Context) error {
	for {
		err := o.read(ctx)
		if !errors.Is(err, events.ErrOutcomeUnknown) || ctx.Err() != nil {
			return err
		}
		if !delay.Sleep(ctx, observeRetry) {
			return context.Cause(ctx)
		}
	}
}

func (o *observer) read(ctx context.Context) error {
	if err := o.history.check(ctx); err != nil {
		return err
	}
	for entry, err := range o.w.log.Read(ctx, o.session, o.history.seq+1) {
		if errors.Is(err, events.ErrShorter) {
			o.history.doubtful = true
			break
		}
		if err == nil {
			err = o.history.check(ctx) // the read has located the history
		}
		if err == nil {
			err = o.commit(ctx, entry)
		}
		if err != nil {
			return err
		}
	}
	return o.history.check(ctx)
}

// follow delivers live messages. After quietCheck without any it reads the log, because the last commit's message may
// be lost.
func (o *observer) follow(ctx context.Context, live *bus.Live) error {
	check := time.NewTimer(firstCheck)
	defer check.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case msg := <-live.C:
			err = o.received(ctx, live, bus.ParseLive(msg), check)
			if err == nil && len(live.C) == 0 {
				err = o.readDropped(ctx, live.Dropped())
			}
		case <-live.Status:
			for len(live.C) > 0 { // of before the reconnect, and perhaps of a history that the server has no more
				<-live.C
			}
			o.history.doubtful = true
			if err = o.catchUp(ctx); err == nil {
				err = o.readDeltas(ctx)
			}
		case <-check.C:
			err = o.catchUp(ctx)
			check.Reset(quietCheck)
		}
		if err != nil {
			return err
		}
	}
}

// received handles a live message: a commit, or with sequence 0 a delta.
func (o *observer) received(ctx context.Context, live *bus.Live, m bus.LiveMessage, check *time.Timer) error {
	if m.Removed || o.history.moved() { // this message may be older than the removal of its texts
		o.history.doubtful = true
		if err := o.catchUp(ctx); err != nil {
			return err
		}
	}
	switch {
	case m.Removed:
		return nil
	case m.Seq == 0:
		return o.receivedDelta(ctx, m)
	case m.Seq > o.history.seq: // earlier ones do not show that the log has no later ones
		check.Reset(quietCheck)
	}
	if live.Dropped() != o.dropped || len(live.Status) > 0 { // commits between the last one and this may be lost, and of another history
		o.history.doubtful = true
	}
	return o.receivedCommit(ctx, m)
}

// readDropped reads the messages that were dropped last, which no gap in the sequences shows.
func (o *observer) readDropped(ctx context.Context, dropped int) error {
	if dropped == o.dropped {
		return nil
	}
	o.dropped = dropped
	o.history.doubtful = true
	if err := o.catchUp(ctx); err != nil {
		return err
	}
	return o.readDeltas(ctx)
}

// receivedCommit emits a live commit. An earlier one is skipped; before a later one the log has the commits in between.
func (o *observer) receivedCommit(ctx context.Context, m bus.LiveMessage) error {
	if m.Seq < o.history.seq || m.Seq == o.history.seq && m.Commit == o.history.commit {
		return nil
	}
	e, err := o.w.b.Entry(m)
	switch {
	case m.Seq == o.history.seq:
		o.history.doubtful = true
		return o.catchUp(ctx)
	case err != nil || m.Seq > o.history.seq+1 || o.history.doubtful:
		return o.catchUp(ctx) // the log has the content that the message lacks
	}
	return o.commit(ctx, e)
}

func (o *observer) receivedDelta(ctx context.Context, m bus.LiveMessage) error {
	var d api.Delta
	data, err := o.w.b.Delta(m)
	if err != nil || events.DecodePayload(data, &d) != nil {
		return nil // a delta is not durable
	}
	if !d.Message.IsZero() {
		return o.message(ctx, &d)
	}
	if !d.Output.IsZero() {
		return o.output(ctx, &d)
	}
	if o.reply.judge(&d) == deltaAhead { // the commit between was lost
		if err := o.catchUp(ctx); err != nil {
			return err
		}
	}
	if o.reply.judge(&d) == deltaGap {
		if err := o.readDeltas(ctx); err != nil {
			return err
		}
	}
	return o.delta(&d)
}

// message delivers a message of running code while the turn of that code runs.
func (o *observer) message(ctx context.Context, d *api.Delta) error {
	if err := o.catchUpTo(ctx, d); err != nil {
		return err
	}
	if d.Turn != o.reply.turn {
		return nil
	}
	return o.emit(api.Observed{Delta: d})
}

// output delivers what a call prints, until the commit of its result.
func (o *observer) output(ctx context.Context, d *api.Delta) error {
	if err := o.catchUpTo(ctx, d); err != nil {
		return err
	}
	if d.Turn != o.reply.turn || d.Iteration != o.reply.iteration-1 || !o.reply.printing.accept(d) {
		return nil
	}
	return o.emit(api.Observed{Delta: d})
}

// catchUpTo reads the commits before a message or an output of a running call, if the observer lacks them: their live
// messages were lost.
func (o *observer) catchUpTo(ctx context.Context, d *api.Delta) error {
	if d.Turn != o.reply.turn && d.Turn != o.reply.ended || d.Turn == o.reply.turn && d.Iteration >= o.reply.iteration {
		return o.catchUp(ctx)
	}
	return nil
}

// delta delivers d where it is the next one, with a gap before it where some are lost.
func (o *observer) delta(d *api.Delta) error {
	switch o.reply.judge(d) {
	case deltaGap:
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

// readDeltas delivers the undelivered deltas of the reply in progress that the delta stream has. After an error they
// are a gap.
func (o *observer) readDeltas(ctx context.Context) error {
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
