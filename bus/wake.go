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

	"github.com/lash-go/lash/events"
)

// WakeKey names what owes work: a session, or one of its tasks. The queue
// holds at most one wake of each.
type WakeKey struct {
	Class   Class
	Session events.SessionID
	Task    events.TaskID // of [ClassTask] and [ClassTool]; empty for [ClassTurn]
}

func (k WakeKey) check() error {
	err := events.CheckToken("session", k.Session)
	if k.Class != ClassTurn {
		err = errors.Join(err, events.CheckToken("task", k.Task))
	}
	return err
}

// WakeHint is what travels with a wake beside its key. All of it may be wrong.
type WakeHint struct {
	Worker events.WorkerID // that has the session's state, or runs it; empty where none is known
	Repair bool            // the wake follows a death or a loss: an earlier delivery may have killed its worker
	Due    events.Millis   // a server's clock has passed this time; 0: no timer came
}

// Headers of a wake.
const (
	headerWorker = "Lash-Worker"
	headerRepair = "Lash-Repair"
)

// PublishWake says that a session, or a task, owes work. It replaces the wake
// that is in the queue, also one that a worker holds, and waits for no answer:
// the sweep repairs a wake that is lost.
func (b *Bus) PublishWake(key WakeKey, hint WakeHint) error {
	msg, err := b.wake(key, hint)
	if err != nil {
		return err
	}
	return mapError(b.nc.PublishMsg(msg))
}

// StoreWake is [Bus.PublishWake] that returns when the queue has the wake, after
// one try: for those that forget then what they wake the session for.
func (b *Bus) StoreWake(ctx context.Context, key WakeKey, hint WakeHint) error {
	msg, err := b.wake(key, hint)
	if err != nil {
		return err
	}
	return b.store(ctx, msg)
}

func (b *Bus) wake(key WakeKey, hint WakeHint) (*nats.Msg, error) {
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

// Wakes lists what has a wake in the queue, whether a worker holds it or not.
// A queue that does not exist is made again, and is empty.
func (b *Bus) Wakes(ctx context.Context) (map[WakeKey]bool, error) {
	subjects, err := b.subjects(ctx, b.names.workStream(), b.names.workAll())
	if isNoAsset(err) {
		if !Sleep(ctx, remakeWait) {
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

// Waits reports whether the queue has a wake, whether a worker holds it or not.
func (b *Bus) Waits(ctx context.Context, key WakeKey) (bool, error) {
	if err := key.check(); err != nil {
		return false, err
	}
	_, err := b.last(ctx, b.names.workStream(), b.names.work(key))
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Wake is a delivered wake in a worker's hands: while the worker says that it
// makes progress, no other worker gets it, unless a new wake replaces it.
type Wake struct {
	WakeKey
	WakeHint
	Deliveries int // 1 the first time; more when an earlier worker fell silent or gave it back
	reply      string
	b          *Bus
}

// Ack removes the wake from the queue. One that was replaced is gone already:
// the ack of it does not touch the new one.
func (w *Wake) Ack() error { return w.say("+ACK") }

// Progress is the sign of life: the queue waits another [AckWait].
func (w *Wake) Progress() error { return w.say("+WPI") }

// GiveBack returns the wake to the queue, to be delivered after delay.
func (w *Wake) GiveBack(delay time.Duration) error {
	if delay <= 0 {
		return w.say("-NAK")
	}
	return w.say(fmt.Sprintf(`-NAK {"delay": %d}`, delay.Nanoseconds()))
}

func (w *Wake) say(what string) error { return mapError(w.b.nc.Publish(w.reply, []byte(what))) }

// Hold is [Wake.Progress] that waits until the queue has it: for [AckWait] from
// when Hold was called no other worker gets the wake, unless a new one replaces it.
func (w *Wake) Hold(ctx context.Context) error {
	once, cancel := context.WithTimeout(ctx, AckWait)
	defer cancel()
	_, err := w.b.nc.RequestWithContext(once, w.reply, []byte("+WPI"))
	return mapError(err)
}

// Handle names the delivery, so that another worker can hold it: see [Bus.Adopt].
func (w *Wake) Handle() string { return w.reply }

// Adopt is a wake that another worker got and hands over. The server takes the
// signs of life of any connection that names the delivery.
func (b *Bus) Adopt(key WakeKey, handle string) (*Wake, error) {
	if !strings.HasPrefix(handle, "$JS.ACK.") || !strings.Contains(handle, "."+b.names.workStream()+"."+string(key.Class)+".") {
		return nil, fmt.Errorf("adopt wake of %s: %w", key.Session, &events.FieldError{Field: "handle", Reason: "names no delivery of the queue", Err: events.ErrInvalid})
	}
	return &Wake{WakeKey: key, Deliveries: 1, reply: handle, b: b}, nil
}

// Queue is a worker's view of one class of wakes.
type Queue struct {
	b        *Bus
	consumer *consumer
}

// Queue joins the workers of a class.
func (b *Bus) Queue(ctx context.Context, class Class) (*Queue, error) {
	c, err := b.join(ctx, b.workConfig(), jetstream.ConsumerConfig{
		Durable: string(class), FilterSubject: b.names.workClass(class), AckWait: AckWait,
	})
	return &Queue{b, c}, err
}

// Fetch takes up to n wakes, as many as come within wait, and hands each to
// take as it arrives. A queue that was deleted is made again: then remade is
// true, and every wake is lost.
func (q *Queue) Fetch(ctx context.Context, n int, wait time.Duration, take func(*Wake)) (remade bool, err error) {
	return q.consumer.fetch(ctx, n, wait, func(msg jetstream.Msg) {
		key, ok := q.b.names.parseWork(msg.Subject())
		meta, err := msg.Metadata()
		if !ok || err != nil {
			_ = msg.Term() // no subject of a wake
			return
		}
		take(&Wake{
			WakeKey: key, WakeHint: readHint(msg.Headers()),
			Deliveries: int(meta.NumDelivered), reply: msg.Reply(), b: q.b, //nolint:gosec // a count of deliveries
		})
	})
}
