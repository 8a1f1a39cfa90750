package session

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Observed is one thing seen of a session: one of Commit, Delta and Gap is set.
type Observed struct {
	Seq    events.Seq     // of Commit, and the cursor that resumes after it; 0 otherwise
	Commit *events.Commit // the observer's own copy
	Delta  *Delta         // the next piece of the reply in flight
	Gap    *Gap           // pieces before the next Delta were lost
}

// Gap says that deltas of the reply in flight were lost for this observer. Its commit will hold the whole reply.
type Gap struct {
	Turn      events.TurnID
	Iteration int64
}

// CursorError is a cursor beyond the end of the history: it belongs to another session, or to one that was lost.
type CursorError struct {
	Session events.SessionID
	Cursor  events.Seq
	Last    events.Seq
}

func (e *CursorError) Error() string {
	return fmt.Sprintf("cursor %d is beyond the end of session %s, last is %d", e.Cursor, e.Session, e.Last)
}

const (
	// liveBuffer is how many messages an observer may be behind. What comes
	// then is dropped here and read back later, so nobody waits for it.
	liveBuffer = 256
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
// stream as long as that keeps it; a [Gap] tells where it does not. Deltas of
// a reply come before the commit that records it or not at all. Who joins late
// gets the newest attempt's deltas from its beginning.
//
// The error is terminal: the cause of ctx's end, [events.ErrNoSession],
// [*CursorError], those of [events.Log.Read]. Once it has begun it waits while the servers do not answer.
func (h *Host) Observe(ctx context.Context, id events.SessionID, cursor events.Seq) iter.Seq2[Observed, error] {
	return func(yield func(Observed, error) bool) {
		o := &observer{h: h, session: id, seq: cursor, yield: yield}
		err := o.run(ctx)
		switch {
		case errors.Is(err, errEnough):
		case ctx.Err() != nil:
			yield(Observed{}, context.Cause(ctx))
		default:
			yield(Observed{}, fmt.Errorf("observe %s: %w", id, err))
		}
	}
}

// observer is one run of [Host.Observe].
type observer struct {
	h       *Host
	session events.SessionID
	yield   func(Observed, error) bool
	seq     events.Seq // of the last commit delivered
	reply   streaming
}

// run subscribes before it reads, so that nothing is between the two.
func (o *observer) run(ctx context.Context) error {
	live, err := o.h.b.Live(o.session, liveBuffer)
	if err != nil {
		return err
	}
	defer live.Close()
	s, err := o.h.State(ctx, o.session)
	if err != nil {
		return err
	}
	if o.seq > s.Seq {
		return &CursorError{Session: o.session, Cursor: o.seq, Last: s.Seq}
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
func (o *observer) emit(seen Observed) error {
	if !o.yield(seen, nil) {
		return errEnough
	}
	return nil
}

func (o *observer) commit(e events.Entry) error {
	o.seq = e.Seq
	o.reply.commit(e)
	return o.emit(Observed{Seq: e.Seq, Commit: e.Commit})
}

// catchUp delivers what the log holds after the last commit delivered.
func (o *observer) catchUp(ctx context.Context) error {
	for {
		err := o.read(ctx)
		if !errors.Is(err, events.ErrOutcomeUnknown) || ctx.Err() != nil {
			return err
		}
		timer := time.NewTimer(observeRetry)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}

func (o *observer) read(ctx context.Context) error {
	for entry, err := range o.h.log.Read(ctx, o.session, o.seq+1) {
		if err != nil {
			return err
		}
		if err := o.commit(entry); err != nil {
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
			m := bus.ParseLive(msg)
			if m.Seq == 0 {
				err = o.heardDelta(ctx, m.Data)
				break
			}
			err = o.heardCommit(ctx, m)
			look.Reset(quietLook)
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

func (o *observer) heardCommit(ctx context.Context, m bus.LiveMessage) error {
	if m.Seq <= o.seq {
		return nil
	}
	c, err := events.Decode(m.Data)
	if err != nil || m.Seq > o.seq+1 {
		return o.catchUp(ctx) // the log knows better
	}
	return o.commit(events.Entry{Seq: m.Seq, Commit: c, Data: m.Data})
}

func (o *observer) heardDelta(ctx context.Context, data []byte) error {
	var d Delta
	if events.DecodePayload(data, &d) != nil {
		return nil // never truth
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

// delta delivers d if it is wanted, with the gap before it.
func (o *observer) delta(d *Delta) error {
	switch o.reply.judge(d) {
	case deltaHole:
		if err := o.emit(Observed{Gap: &Gap{Turn: d.Turn, Iteration: d.Iteration}}); err != nil {
			return err
		}
	case deltaNext:
	case deltaOld, deltaAhead:
		return nil
	}
	o.reply.delivered(d)
	return o.emit(Observed{Delta: d})
}

// late delivers what the delta stream keeps of the reply in flight and was not
// delivered. An error is not worth ending for: it is a gap.
func (o *observer) late(ctx context.Context) error {
	if o.reply.turn == "" {
		return nil
	}
	var list []*Delta
	var newest try
	for stored, err := range o.h.b.Deltas(ctx, o.session, o.reply.turn, o.reply.from) {
		if err != nil {
			break
		}
		d := &Delta{}
		if events.DecodePayload(stored.Data, d) != nil || d.Iteration > o.reply.iteration {
			continue
		}
		o.reply.from = stored.Seq + 1
		if d.Iteration == o.reply.iteration {
			list = append(list, d)
			if d.try().compare(newest) > 0 {
				newest = d.try()
			}
		}
	}
	for _, d := range list {
		if d.try() != newest {
			continue // retracted
		}
		if err := o.delta(d); err != nil {
			return err
		}
	}
	return nil
}

// StartTurnStream submits a turn and gives its events from the first to done.
// An id that is known is attached to: its events come from its beginning. The
// loop may be left, or never begun: the turn goes on. Errors are those of
// [Host.Submit]; those inside the stream, which are terminal, of
// [Host.Observe], and [ErrDifferent] for an id that was used with other input.
func (h *Host) StartTurnStream(ctx context.Context, id events.SessionID, req TurnRequest) (events.TurnID, iter.Seq2[SessionEvent, error], error) {
	if req.ID == "" {
		req.ID = events.TurnID(ulid.Make().String())
	}
	before, err := h.State(ctx, id)
	if err != nil {
		return "", nil, fmt.Errorf("start turn %s: %w", req.ID, err)
	}
	_, known, err := findTurn(before, req.ID)
	if err != nil {
		return "", nil, fmt.Errorf("start turn %s: %w", req.ID, err)
	}
	if known != "" {
		before = projector.New(id) // where it began is not at hand
	}
	turn, input, err := h.submit(ctx, id, req)
	if err != nil {
		return "", nil, err
	}
	return turn, func(yield func(SessionEvent, error) bool) {
		t := &turnStream{h: h, input: input, events: NewEventStream(turn, before.Clone())}
		for seen, err := range h.Observe(ctx, id, before.Seq) {
			list, err := t.next(ctx, seen, err)
			for _, e := range list {
				if !yield(e, nil) {
					return
				}
			}
			if err != nil {
				yield(SessionEvent{}, fmt.Errorf("stream turn %s: %w", turn, err))
			}
			if err != nil || t.events.Done() {
				return
			}
		}
	}, nil
}

// turnStream is one run of a turn's events.
type turnStream struct {
	h      *Host
	input  string // digest of what was submitted
	events *EventStream
}

func (t *turnStream) next(ctx context.Context, seen Observed, err error) ([]SessionEvent, error) {
	if err != nil {
		return nil, err
	}
	if seen.Commit != nil {
		for i := range seen.Commit.Events {
			if err := t.prepare(ctx, &seen.Commit.Events[i]); err != nil {
				return nil, err
			}
		}
	}
	return t.events.Next(seen)
}

// prepare checks that the turn is the one submitted, and brings in what replies and results keep in blobs.
func (t *turnStream) prepare(ctx context.Context, ev *events.Event) (err error) {
	if ev.Turn != t.events.turn {
		return nil
	}
	switch p := ev.Payload.(type) {
	case *events.TurnRequested:
		if projector.InputDigest(p.Input) != t.input {
			return ErrDifferent
		}
	case *events.ModelReplied, *events.ToolReturned:
		ev.Payload, err = fillPayload(ctx, t.h.b, p)
	}
	return err
}

// fillPayload is the inverse of [Spill] for what a reply says and calls, and what results tell the model.
func fillPayload(ctx context.Context, blobs BlobReader, p events.Payload) (events.Payload, error) {
	p = clonePayload(p)
	var list []spillable
	switch p := p.(type) {
	case *events.ModelReplied:
		list = partBodies(nil, p.Parts)
	case *events.ToolReturned:
		for i := range p.Results {
			list = append(list, spillable{text: &p.Results[i].Text, ref: &p.Results[i].Blob})
		}
	}
	for _, s := range list {
		if s.ref.IsZero() {
			continue
		}
		body, err := blobs.Blob(ctx, *s.ref)
		if err != nil {
			return nil, fmt.Errorf("fill %s: %w", p.Kind(), err)
		}
		*s.ref = events.BlobRef{}
		if s.text != nil {
			*s.text = string(body)
		} else {
			*s.data = body
		}
	}
	return p, nil
}
