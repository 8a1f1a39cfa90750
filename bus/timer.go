package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
)

// headerDue is when a timer is due, in ms since 1970.
const headerDue = "Lash-Due"

// timerConfig is the stream in which timers wait and are delivered.
func (b *Bus) timerConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: b.names.timerStream(), Subjects: []string{b.names.timerAll()},
		Storage: jetstream.FileStorage, Replicas: b.replicas, MaxMsgSize: maxMessage,
		Retention: jetstream.WorkQueuePolicy, MaxMsgsPerSubject: 1,
		AllowMsgSchedules: true, AllowMsgTTL: true,
	}
}

// SetTimer sets the time of a session's earliest due work, without waiting for an ack. A session has one timer: the
// newest replaces the earlier one. The firing of the earlier one can delete it, so a worker sets it again after each firing.
// It is a hint, as a wake is: the history says what is due.
func (b *Bus) SetTimer(session events.SessionID, at events.Millis) error {
	msg, err := b.timerMessage(session, at)
	return b.hint(b.names.timerStream(), msg, err)
}

// StoreTimer is [Bus.SetTimer] that returns when the timer is stored, after one try.
func (b *Bus) StoreTimer(ctx context.Context, session events.SessionID, at events.Millis) error {
	msg, err := b.timerMessage(session, at)
	return b.publishAcked(ctx, b.names.timerStream(), msg, err)
}

func (b *Bus) timerMessage(session events.SessionID, at events.Millis) (*nats.Msg, error) {
	if err := events.CheckToken("session", session); err != nil {
		return nil, fmt.Errorf("set timer: %w", err)
	}
	msg := nats.NewMsg(b.names.timerAt(session))
	msg.Header.Set(headerDue, strconv.FormatInt(int64(at), 10))
	msg.Header.Set(jetstream.ScheduleHeader, "@at "+at.Time().UTC().Format(time.RFC3339Nano))
	msg.Header.Set(jetstream.ScheduleTargetHeader, b.names.timerDue(session))
	return msg, nil
}

// Timer is the time of a session's waiting timer; 0 where there is none.
func (b *Bus) Timer(ctx context.Context, session events.SessionID) (events.Millis, error) {
	if err := events.CheckToken("session", session); err != nil {
		return 0, err
	}
	msg, err := b.lastMessage(ctx, b.names.timerStream(), b.names.timerAt(session))
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	at, _ := strconv.ParseInt(msg.Header.Get(headerDue), 10, 64) // a malformed time counts as none
	return events.Millis(at), nil
}

// Timers lists the sessions that have a waiting timer.
func (b *Bus) Timers(ctx context.Context) (list []events.SessionID, err error) {
	subjects, err := b.subjects(ctx, b.names.timerStream(), b.names.timersAt())
	for subject := range subjects {
		if session, ok := b.names.parseTimer(subject); ok {
			list = append(list, session)
		}
	}
	return list, err
}

// Due is a worker's consumer of due timers.
type Due struct {
	b        *Bus
	consumer *consumer
}

// Due joins the workers' consumer of timers.
func (b *Bus) Due(ctx context.Context) (*Due, error) {
	c, err := b.joinConsumer(ctx, b.timerConfig(), jetstream.ConsumerConfig{
		Durable: "due", FilterSubject: b.names.timersDue(), AckWait: dueWait,
	})
	return &Due{b, c}, err
}

// dueWait is how long a worker may handle a timer.
const dueWait = 10 * time.Second

// dueAgain is the delay of a timer's redelivery to a worker that could not handle it.
const dueAgain = time.Second

// Fetch calls fire with the sessions and times of up to n timers, as many as arrive within wait, and acks those for
// which fire returns nil. The others are redelivered. A deleted stream is created again: then recreated is true, and every timer is lost.
func (d *Due) Fetch(ctx context.Context, n int, wait time.Duration, fire func(events.SessionID, events.Millis) error) (recreated bool, err error) {
	return d.consumer.fetch(ctx, n, wait, func(msg jetstream.Msg) {
		session, ok := d.b.names.parseTimer(msg.Subject())
		at, err := strconv.ParseInt(msg.Headers().Get(headerDue), 10, 64)
		switch {
		case !ok || err != nil:
			_ = msg.Term() // not a timer
		case fire(session, events.Millis(at)) != nil:
			_ = msg.NakWithDelay(dueAgain)
		default:
			_ = msg.Ack()
		}
	})
}
