package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
)

// WakeKey names what needs a worker: a session, or one of its tasks. The queue has at most one wake of each key.
type WakeKey struct {
	Class   Class
	Session events.SessionID
	Task    events.TaskID // of [ClassTask] and [ClassTool], else empty
}

func (k WakeKey) check() error {
	err := events.CheckToken("session", k.Session)
	if !k.Class.OfTurns() {
		err = errors.Join(err, events.CheckToken("task", k.Task))
	}
	return err
}

// WakeHint is the metadata of a wake. All of it may be wrong.
type WakeHint struct {
	Worker events.WorkerID // that has the session's state, or runs it; empty: unknown
	Repair bool            // the wake follows a loss or a worker's death: an earlier delivery may have killed its worker
	Due    events.Millis   // the due time of the timer that caused the wake; 0: none
}

// Headers of a wake.
const (
	headerWorker = "Lash-Worker"
	headerRepair = "Lash-Repair"
)

// PublishWake publishes that a session, or a task, needs a worker. It replaces the queued wake of the key, also a
// delivered one, and waits for no ack: the sweep repairs a lost wake.
func (b *Bus) PublishWake(key WakeKey, hint WakeHint) error {
	msg, err := b.wakeMessage(key, hint)
	return b.hint(b.names.workStream(), msg, err)
}

// StoreWake is [Bus.PublishWake] that returns when the queue has the wake, after one try. It is for callers that keep
// no other record of the work.
func (b *Bus) StoreWake(ctx context.Context, key WakeKey, hint WakeHint) error {
	msg, err := b.wakeMessage(key, hint)
	return b.publishAcked(ctx, b.names.workStream(), msg, err)
}

func (b *Bus) wakeMessage(key WakeKey, hint WakeHint) (*nats.Msg, error) {
	if err := key.check(); err != nil {
		return nil, fmt.Errorf("wake: %w", err)
	}
	return &nats.Msg{Subject: b.names.work(key), Header: hint.header()}, nil
}

func (h WakeHint) header() nats.Header {
	if h == (WakeHint{}) {
		return nil
	}
	header := nats.Header{}
	if h.Worker != "" {
		header[headerWorker] = []string{string(h.Worker)}
	}
	if h.Repair {
		header[headerRepair] = []string{"1"}
	}
	if h.Due != 0 {
		header[headerDue] = []string{strconv.FormatInt(int64(h.Due), 10)}
	}
	return header
}

func readHint(header nats.Header) WakeHint {
	due, _ := strconv.ParseInt(header.Get(headerDue), 10, 64)
	return WakeHint{
		Worker: events.WorkerID(header.Get(headerWorker)), Repair: header.Get(headerRepair) != "", Due: events.Millis(due),
	}
}

// Wakes lists the keys that have a wake in the queue, delivered or not. A queue that does not exist is created, and
// is empty.
func (b *Bus) Wakes(ctx context.Context) (map[WakeKey]bool, error) {
	subjects, err := b.subjects(ctx, b.names.workStream(), b.names.workAll())
	if isNoAsset(err) {
		if !delay.Sleep(ctx, recreateWait) {
			return nil, context.Cause(ctx)
		}
		subjects, err = nil, b.ensureStream(ctx, b.workConfig())
	}
	list := make(map[WakeKey]bool, len(subjects))
	for subject := range subjects {
		if key, ok := b.names.parseWork(subject); ok {
			list[key] = true
		}
	}
	return list, err
}

// PurgeWakes removes all wakes from the queue, delivered or not, as a loss of the queue does. For a program that makes faults.
// Errors: [ErrNotFound] for a queue that does not exist.
func (b *Bus) PurgeWakes(ctx context.Context) error {
	stream, err := b.js.Stream(ctx, b.names.workStream())
	if isNoAsset(err) {
		return fmt.Errorf("queue of wakes: %w", ErrNotFound)
	}
	if err != nil {
		return mapError(err)
	}
	return mapError(stream.Purge(ctx))
}

// HasWake reports whether the queue has a wake of a key, delivered or not.
func (b *Bus) HasWake(ctx context.Context, key WakeKey) (bool, error) {
	if err := key.check(); err != nil {
		return false, err
	}
	_, err := b.lastMessage(ctx, b.names.workStream(), b.names.work(key))
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Wake is a delivered wake. While the worker confirms progress, no other worker gets the wake, unless a new wake
// replaces it.
type Wake struct {
	WakeKey
	WakeHint
	Deliveries   int // 1 the first time; more after a redelivery
	replySubject string
	b            *Bus
}

// Ack removes the wake from the queue. The ack of a replaced wake has no effect on the new one.
func (w *Wake) Ack() error { return w.reply("+ACK") }

// Progress restarts [AckWait] of the wake.
func (w *Wake) Progress() error { return w.reply("+WPI") }

// Nak returns the wake to the queue, for redelivery after delay.
func (w *Wake) Nak(delay time.Duration) error {
	if delay <= 0 {
		return w.reply("-NAK")
	}
	return w.reply(fmt.Sprintf(`-NAK {"delay": %d}`, delay.Nanoseconds()))
}

func (w *Wake) reply(what string) error {
	return mapError(w.b.nc.Publish(w.replySubject, []byte(what)))
}

// Extend is [Wake.Progress] that waits for the queue's confirmation: for [AckWait] from the call of Extend no other
// worker gets the wake, unless a new one replaces it, or the server restarts. That holds only if less than [AckWait] has passed since the
// delivery or the last Extend: the server confirms a later one too, and another worker may have the wake.
func (w *Wake) Extend(ctx context.Context) error {
	once, cancel := context.WithTimeout(ctx, AckWait)
	defer cancel()
	_, err := w.b.nc.RequestWithContext(once, w.replySubject, []byte("+WPI"))
	return mapError(err)
}

// Handle names the delivery, for [Bus.Adopt] in another worker.
func (w *Wake) Handle() string { return w.replySubject }

// Adopt is a wake that was delivered to another worker, which hands it over. The server accepts progress and acks of
// a delivery from any connection. Errors: [events.ErrInvalid] for a handle that names no delivery of this class.
func (b *Bus) Adopt(key WakeKey, handle string) (*Wake, error) {
	if !strings.HasPrefix(handle, "$JS.ACK.") || !strings.Contains(handle, "."+b.names.workStream()+"."+string(key.Class)+".") {
		return nil, fmt.Errorf("adopt wake of %s: %w", key.Session, &events.FieldError{Field: "handle", Reason: "names no delivery of the queue", Err: events.ErrInvalid})
	}
	return &Wake{WakeKey: key, Deliveries: 1, replySubject: handle, b: b}, nil
}

// Queue is a worker's consumer of one class of wakes.
type Queue struct {
	b        *Bus
	consumer *consumer
}

// Queue joins the workers of a class.
func (b *Bus) Queue(ctx context.Context, class Class) (*Queue, error) {
	if err := events.CheckToken("class", class); err != nil {
		return nil, err
	}
	c, err := b.joinConsumer(ctx, b.workConfig(), jetstream.ConsumerConfig{
		Durable: string(class), FilterSubject: b.names.workClass(class), AckWait: AckWait,
	})
	return &Queue{b, c}, err
}

// Fetch calls take with up to n wakes, as many as arrive within wait. A deleted queue is created again: then recreated
// is true, and every wake is lost.
func (q *Queue) Fetch(ctx context.Context, n int, wait time.Duration, take func(*Wake)) (recreated bool, err error) {
	return q.consumer.fetch(ctx, n, wait, func(msg jetstream.Msg) {
		key, ok := q.b.names.parseWork(msg.Subject())
		meta, err := msg.Metadata()
		if !ok || err != nil {
			_ = msg.Term() // not a wake
			return
		}
		take(&Wake{
			WakeKey: key, WakeHint: readHint(msg.Headers()),
			Deliveries: int(meta.NumDelivered), replySubject: msg.Reply(), b: q.b, //nolint:gosec // a count of deliveries
		})
	})
}
