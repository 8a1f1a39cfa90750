package bus

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
)

// Live is a subscription to a session's commits and deltas as they happen, in one order, without a consumer on the
// server.
type Live struct {
	// C delivers messages for [ParseLive]. Messages that arrive while C is full are lost: a gap in the sequences and
	// [Live.Dropped] show it. C is never closed.
	C <-chan *nats.Msg
	// Status delivers CONNECTED after a reconnect, and CLOSED at the end of the connection. Messages published before a
	// reconnect may be lost.
	Status   <-chan nats.Status
	nc       *nats.Conn
	listener chan nats.Status
	subs     []*nats.Subscription
}

// Live subscribes to a session. It receives everything that is requested or published on this bus after it returns,
// as the server handles one connection's messages in order.
func (b *Bus) Live(session events.SessionID, buffer int) (*Live, error) {
	if err := events.CheckToken("session", session); err != nil {
		return nil, err
	}
	b.subscribeRemovals()
	c := make(chan *nats.Msg, buffer)
	back := b.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	l := &Live{C: c, Status: back, nc: b.nc, listener: back}
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

// OnCommit calls deliver with each of a session's commits as they happen, from one goroutine, until stop. As with
// [Bus.Live], a gap in the sequences shows a loss.
func (b *Bus) OnCommit(session events.SessionID, deliver func(LiveMessage)) (stop func(), err error) {
	if err := events.CheckToken("session", session); err != nil {
		return nil, err
	}
	b.subscribeRemovals()
	order := arrivalOrder{reconnects: b.Reconnects()}
	return b.listen(b.names.liveAll(session), func(m *nats.Msg) {
		parsed := ParseLive(m)
		parsed.Early = order.isEarly(b.Reconnects(), m.Sub)
		deliver(parsed)
	})
}

// arrivalOrder tells the messages of a subscription that may have arrived before the last reconnect. They are those that waited when the
// reconnect was noticed.
type arrivalOrder struct {
	reconnects uint64
	early      int // messages from here on
}

// isEarly is called with each message, while its handler has it.
func (o *arrivalOrder) isEarly(reconnects uint64, sub *nats.Subscription) bool {
	if reconnects != o.reconnects {
		waiting, _, _ := sub.Pending() // an ended one has none
		o.reconnects, o.early = reconnects, max(waiting, 1)
	}
	if o.early == 0 {
		return false
	}
	o.early--
	return true
}

// Close ends the subscription.
func (l *Live) Close() {
	l.nc.RemoveStatusListener(l.listener)
	for _, sub := range l.subs {
		_ = sub.Unsubscribe()
	}
}

// Dropped is how many messages were lost because C was full.
func (l *Live) Dropped() int {
	sum := 0
	for _, sub := range l.subs {
		n, _ := sub.Dropped() // an ended one drops nothing
		sum += n
	}
	return sum
}

// LiveMessage is one received commit or delta, or a hint at a removal.
type LiveMessage struct {
	Seq        events.Seq // of a commit, 0 for deltas
	Data       []byte     // commit or delta as it is stored: [Bus.Entry] and [Bus.Delta] decode it
	subject    string
	Commit     events.CommitID // of a commit
	MayEndTurn bool            // the commit ends a turn, or requests its cancel
	AboutTasks bool            // the commit has an event of the family task
	Removed    bool            // neither: texts of the history may have been removed
	Early      bool            // of [Bus.OnCommit]: it arrived before a reconnect, perhaps, and may be of a history that the servers do not have any more
}

// hasKind reports whether one of a commit's kinds fits. kinds is the value of [headerKinds].
func hasKind(kinds string, fits func(events.Kind) bool) bool {
	for kind := range strings.SplitSeq(kinds, ",") {
		if fits(events.Kind(kind)) {
			return true
		}
	}
	return false
}

func mayEndTurn(k events.Kind) bool {
	return k == events.KindTurnCompleted || k == events.KindTurnDiverted || k == events.KindTurnCancelRequested
}

func isOfTask(k events.Kind) bool { return k.Family() == "task" }

func isOfTaskOrMonitor(k events.Kind) bool { return isOfTask(k) || k.Family() == "monitor" }

// ParseLive reads a message of [Live.C]. A commit names its stream, and is accepted only from a stream of the
// session: another client of the account can make the server answer a request to this subject with a message of
// another stream.
func ParseLive(m *nats.Msg) LiveMessage {
	seq, err := strconv.ParseUint(m.Header.Get(headerSeq), 10, 64)
	if err != nil || !ofSession(m.Header.Get(jetstream.StreamHeader), m.Subject) {
		return LiveMessage{Data: m.Data, subject: m.Subject, Removed: strings.HasSuffix(m.Subject, removedToken)}
	}
	kinds := m.Header.Get(headerKinds)
	return LiveMessage{
		Seq: events.Seq(seq), Data: m.Data, subject: m.Subject, Commit: events.CommitID(m.Header.Get(jetstream.MsgIDHeader)),
		MayEndTurn: hasKind(kinds, mayEndTurn),
		AboutTasks: hasKind(kinds, isOfTask),
	}
}

// Entry is the commit of a live message. Errors: those of [events.Decode]; [events.ErrOutcomeUnknown] for a plain commit where
// there are keys, which only a read of the log judges.
func (b *Bus) Entry(m LiveMessage) (events.Entry, error) { return b.decodeAlone(m.Seq, m.Data) }

// Delta is the delta of a live message. Errors: a [*events.KeyError], [events.ErrMalformed].
func (b *Bus) Delta(m LiveMessage) ([]byte, error) { return b.loadBody(m.Data, m.subject) }

// PublishDelta publishes a delta of streamed output without waiting for an ack. Deltas are not part of the history.
func (b *Bus) PublishDelta(session events.SessionID, turn events.TurnID, data []byte) error {
	if err := errors.Join(events.CheckToken("session", session), events.CheckToken("turn", turn)); err != nil {
		return err
	}
	return b.publishBody(b.names.delta(session, turn), data)
}

// PublishOutput publishes what a running tool prints, encoded as a delta, to the subscriptions of [Bus.Live]. The delta
// stream stores it too, as it stores each delta, but [Bus.Deltas] does not read it.
func (b *Bus) PublishOutput(session events.SessionID, data []byte) error {
	if err := events.CheckToken("session", session); err != nil {
		return err
	}
	return b.publishBody(b.names.output(session), data)
}

// publishBody publishes a body without waiting for an ack.
func (b *Bus) publishBody(subject string, body []byte) error {
	stored, err := b.storeBody(body, subject)
	if err != nil {
		return err
	}
	return mapError(b.nc.Publish(subject, stored))
}

// StoredDelta is a delta with its sequence in the delta stream, which all sessions share.
type StoredDelta struct {
	Seq  uint64
	Data []byte
}

// Deltas reads the stored deltas of a turn, in order, from a sequence of the delta stream on (0 means all). It may
// miss the newest; a subscription made before the call receives these. The error is terminal.
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
			data, err := b.loadBody(msg.Data, msg.Subject)
			if !yield(StoredDelta{msg.Sequence, data}, err) || err != nil {
				return
			}
		}
	}
}

// MarkDirty notifies the projectors that a session has new commits. It is a hint, and waits for no ack.
func (b *Bus) MarkDirty(session events.SessionID) error {
	if err := events.CheckToken("session", session); err != nil {
		return err
	}
	return mapError(b.nc.Publish(b.names.dirty(session), nil))
}

// CommitWatch is a subscription to the commits of every session, without their content.
type CommitWatch struct {
	sub      *nats.Subscription
	dropped  int
	listener chan nats.Status
	nc       *nats.Conn
}

// WatchCommits calls deliver with the session and the sequence of each commit as it happens, and whether the commit
// has an event of a background task or of a monitor. It calls from one goroutine, until Close.
func (b *Bus) WatchCommits(deliver func(id events.SessionID, seq events.Seq, background bool)) (*CommitWatch, error) {
	m := &CommitWatch{nc: b.nc, listener: b.nc.StatusChanged(nats.CONNECTED)}
	var err error
	m.sub, err = b.nc.Subscribe(b.names.liveEverySession(), func(msg *nats.Msg) {
		id, ok := b.names.parseLive(msg.Subject)
		seq, err := strconv.ParseUint(msg.Header.Get(jetstream.SequenceHeader), 10, 64)
		if ok && err == nil {
			deliver(id, events.Seq(seq), hasKind(msg.Header.Get(headerKinds), isOfTaskOrMonitor))
		}
	})
	if err != nil {
		return nil, fmt.Errorf("watch every session: %w", mapError(err))
	}
	return m, nil
}

// Missed reports whether messages may have been missed since the last call: the buffer was full, or the client
// reconnected.
func (m *CommitWatch) Missed() bool {
	n, _ := m.sub.Dropped() // an ended subscription drops nothing
	missed := n != m.dropped
	m.dropped = n
	for {
		select {
		case <-m.listener:
			missed = true
			continue
		default:
		}
		return missed
	}
}

// Close ends the subscription.
func (m *CommitWatch) Close() {
	m.nc.RemoveStatusListener(m.listener)
	_ = m.sub.Unsubscribe()
}

// Dirty is a projector's consumer of dirty marks.
type Dirty struct {
	b        *Bus
	consumer *consumer
}

// DirtyMark is a session that has new commits. It is redelivered until it is acked.
type DirtyMark struct {
	Session events.SessionID
	msg     jetstream.Msg
}

// Ack removes the mark.
func (m *DirtyMark) Ack() error { return mapError(m.msg.Ack()) }

// Nak has the mark redelivered after delay.
func (m *DirtyMark) Nak(delay time.Duration) error { return mapError(m.msg.NakWithDelay(delay)) }

// Dirty joins the projectors' consumer.
func (b *Bus) Dirty(ctx context.Context) (*Dirty, error) {
	c, err := b.joinConsumer(ctx, b.dirtyConfig(), jetstream.ConsumerConfig{Durable: "projector", AckWait: 10 * time.Second})
	return &Dirty{b, c}, err
}

// Fetch calls take with up to n marks. A deleted stream is created again: the projectors' own sweep finds the
// sessions whose marks were lost.
func (d *Dirty) Fetch(ctx context.Context, n int, wait time.Duration, take func(*DirtyMark)) error {
	_, err := d.consumer.fetch(ctx, n, wait, func(msg jetstream.Msg) {
		if session, ok := d.b.names.parseDirty(msg.Subject()); ok {
			take(&DirtyMark{Session: session, msg: msg})
		}
	})
	return err
}
