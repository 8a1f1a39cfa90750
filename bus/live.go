package bus

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
)

// Live is a subscription to a session's commits and deltas as they happen,
// in one order, with no consumer on the server.
type Live struct {
	// C delivers; [ParseLive] reads. When it is full, messages are lost: the
	// gap in the sequences tells, and [Live.Dropped]. It is never closed.
	C <-chan *nats.Msg
	// Back tells that the connection came back, or is closed for good. What was sent before may be lost.
	Back <-chan nats.Status
	nc   *nats.Conn
	back chan nats.Status
	subs []*nats.Subscription
}

// Live subscribes. What is requested or published on this bus after it
// returns is seen, as the server takes one connection's messages in order.
func (b *Bus) Live(session events.SessionID, buffer int) (*Live, error) {
	if err := events.CheckToken("session", session); err != nil {
		return nil, err
	}
	c := make(chan *nats.Msg, buffer)
	back := b.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	l := &Live{C: c, Back: back, nc: b.nc, back: back}
	for _, subject := range []string{b.names.liveAll(session), b.names.deltaSession(session)} {
		sub, err := b.nc.ChanSubscribe(subject, c)
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("watch %s: %w", session, mapError(err))
		}
		l.subs = append(l.subs, sub)
	}
	return l, nil
}

// Hear calls deliver with each of a session's commits as they happen, from one
// goroutine, until stop. As with [Bus.Live], gaps in the sequences tell of losses.
func (b *Bus) Hear(session events.SessionID, deliver func(LiveMessage)) (stop func(), err error) {
	if err := events.CheckToken("session", session); err != nil {
		return nil, err
	}
	return b.listen(b.names.liveAll(session), func(m *nats.Msg) { deliver(ParseLive(m)) })
}

// Close ends the subscription.
func (l *Live) Close() {
	l.nc.RemoveStatusListener(l.back)
	for _, sub := range l.subs {
		_ = sub.Unsubscribe()
	}
}

// Dropped is how many messages found C full since the subscription began.
func (l *Live) Dropped() int {
	sum := 0
	for _, sub := range l.subs {
		n, _ := sub.Dropped() // an ended one drops nothing
		sum += n
	}
	return sum
}

// LiveMessage is one thing seen of a session: a commit, or a delta.
type LiveMessage struct {
	Seq  events.Seq // of a commit, 0 for deltas
	Data []byte     // encoded commit or delta
	Ends bool       // the commit ends a turn, or asks one to stop
	Work bool       // the commit is about background tasks
}

func containsAny(kinds string, of ...events.Kind) bool {
	return slices.ContainsFunc(of, func(k events.Kind) bool { return strings.Contains(kinds, string(k)) })
}

// ParseLive reads a message of [Live.C]. A commit says which stream it is of, and
// is taken from a session's only: another client of the account can have the
// server answer a request of its own to the subject, with what it stored as a blob.
func ParseLive(m *nats.Msg) LiveMessage {
	seq, err := strconv.ParseUint(m.Header.Get(headerSeq), 10, 64)
	if err != nil || !ofSession(m.Header.Get(jetstream.StreamHeader), m.Subject) {
		return LiveMessage{Data: m.Data}
	}
	kinds := m.Header.Get(headerKinds)
	return LiveMessage{
		Seq: events.Seq(seq), Data: m.Data,
		Ends: containsAny(kinds, events.KindTurnCompleted, events.KindTurnDiverted, events.KindTurnCancelRequested),
		Work: strings.Contains(kinds, "task."),
	}
}

// PublishDelta sends a piece of streamed output. It is never truth: no answer is waited for.
func (b *Bus) PublishDelta(session events.SessionID, turn events.TurnID, data []byte) error {
	return mapError(b.nc.Publish(b.names.delta(session, turn), data))
}

// StoredDelta is a delta with its place in the delta stream, which all sessions share.
type StoredDelta struct {
	Seq  uint64
	Data []byte
}

// Deltas reads what is still kept of a turn's deltas, in order, from sequence
// from of the delta stream on (0 means all). It may miss the newest, which a
// subscription made before sees. The error is terminal.
func (b *Bus) Deltas(ctx context.Context, session events.SessionID, turn events.TurnID, from uint64) iter.Seq2[StoredDelta, error] {
	return func(yield func(StoredDelta, error) bool) {
		if err := errors.Join(events.CheckToken("session", session), events.CheckToken("turn", turn)); err != nil {
			yield(StoredDelta{}, fmt.Errorf("read deltas of %s: %w", session, err))
			return
		}
		for msg, err := range b.messages(ctx, false, b.names.deltaStream(), b.names.delta(session, turn), from, 1) {
			if err != nil {
				yield(StoredDelta{}, fmt.Errorf("read deltas of %s: %w", session, err))
				return
			}
			if !yield(StoredDelta{msg.Sequence, msg.Data}, nil) {
				return
			}
		}
	}
}

// MarkDirty tells projectors that a session moved. It is a hint: no answer is waited for.
func (b *Bus) MarkDirty(session events.SessionID) error {
	return mapError(b.nc.Publish(b.names.dirty(session), nil))
}

// Moved is a subscription to the commits of every session, of which only the
// session counts.
type Moved struct {
	sub  *nats.Subscription
	lost int
	back chan nats.Status
	nc   *nats.Conn
}

// Moved calls deliver with the session and the sequence of each commit as it happens,
// and whether the commit is about background tasks, from one goroutine, until Close.
func (b *Bus) Moved(deliver func(id events.SessionID, seq events.Seq, background bool)) (*Moved, error) {
	m := &Moved{nc: b.nc, back: b.nc.StatusChanged(nats.CONNECTED)}
	var err error
	m.sub, err = b.nc.Subscribe(b.names.liveEvery(), func(msg *nats.Msg) {
		id, background := b.names.parseLive(msg.Subject)
		seq, _ := strconv.ParseUint(msg.Header.Get(jetstream.SequenceHeader), 10, 64)
		deliver(id, events.Seq(seq), background)
	})
	if err != nil {
		return nil, fmt.Errorf("watch every session: %w", mapError(err))
	}
	return m, nil
}

// Lost reports whether messages may have been lost since the last call: the
// buffer was full, or the connection was made again.
func (m *Moved) Lost() bool {
	n, _ := m.sub.Dropped() // an ended subscription drops nothing
	lost := n != m.lost
	m.lost = n
	for {
		select {
		case <-m.back:
			lost = true
			continue
		default:
		}
		return lost
	}
}

// Close ends the subscription.
func (m *Moved) Close() {
	m.nc.RemoveStatusListener(m.back)
	_ = m.sub.Unsubscribe()
}

// Dirty is a projector's view of the sessions that moved.
type Dirty struct {
	b        *Bus
	consumer *consumer
}

// DirtyMark says that a session moved. It must be acked, or given back, or it comes again.
type DirtyMark struct {
	Session events.SessionID
	msg     jetstream.Msg
}

// Ack forgets the mark.
func (m *DirtyMark) Ack() error { return mapError(m.msg.Ack()) }

// GiveBack has it delivered after delay.
func (m *DirtyMark) GiveBack(delay time.Duration) error { return mapError(m.msg.NakWithDelay(delay)) }

// Dirty joins the projectors.
func (b *Bus) Dirty(ctx context.Context) (*Dirty, error) {
	c, err := b.join(ctx, b.dirtyConfig(), jetstream.ConsumerConfig{Durable: "projector", AckWait: 10 * time.Second})
	return &Dirty{b, c}, err
}

// Fetch hands up to n marks to take. A stream that was deleted is made again:
// the projectors' own sweep finds what its marks were about.
func (d *Dirty) Fetch(ctx context.Context, n int, wait time.Duration, take func(*DirtyMark)) error {
	_, err := d.consumer.fetch(ctx, n, wait, func(msg jetstream.Msg) {
		if session, ok := d.b.names.parseDirty(msg.Subject()); ok {
			take(&DirtyMark{Session: session, msg: msg})
		}
	})
	return err
}
