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

// headerDue says when a timer is due, in ms: the server counts whole seconds.
const headerDue = "Lash-Due"

// timerConfig holds timers where they wait, and where they are delivered.
func (b *Bus) timerConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: b.names.timerStream(), Subjects: []string{b.names.timerAll()},
		Storage: jetstream.FileStorage, Replicas: b.replicas, MaxMsgSize: maxMessage,
		Retention: jetstream.WorkQueuePolicy, MaxMsgsPerSubject: 1,
		AllowMsgSchedules: true, AllowMsgTTL: true,
	}
}

// SetTimer asks for a session to be looked at when its earliest due time has
// come. A session has one timer: the newest replaces the one before. It is a
// hint, as a wake is: what is due stands in the history.
func (b *Bus) SetTimer(session events.SessionID, at events.Millis) error {
	msg, err := b.timer(session, at)
	if err != nil {
		return err
	}
	return mapError(b.nc.PublishMsg(msg))
}

// StoreTimer is [Bus.SetTimer] that returns when the timer is stored, after one
// try: for those that look at the session no more until it comes.
func (b *Bus) StoreTimer(ctx context.Context, session events.SessionID, at events.Millis) error {
	msg, err := b.timer(session, at)
	if err != nil {
		return err
	}
	return b.store(ctx, msg)
}

func (b *Bus) timer(session events.SessionID, at events.Millis) (*nats.Msg, error) {
	if err := events.CheckToken("session", session); err != nil {
		return nil, fmt.Errorf("set timer: %w", err)
	}
	msg := nats.NewMsg(b.names.timerAt(session))
	msg.Header.Set(headerDue, strconv.FormatInt(int64(at), 10))
	msg.Header.Set(jetstream.ScheduleHeader, "@at "+at.Time().UTC().Format(time.RFC3339))
	msg.Header.Set(jetstream.ScheduleTargetHeader, b.names.timerDue(session))
	return msg, nil
}

// Timer is the time of the timer that waits for a session; 0 where there is none.
func (b *Bus) Timer(ctx context.Context, session events.SessionID) (events.Millis, error) {
	if err := events.CheckToken("session", session); err != nil {
		return 0, err
	}
	msg, err := b.last(ctx, b.names.timerStream(), b.names.timerAt(session))
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	at, _ := strconv.ParseInt(msg.Header.Get(headerDue), 10, 64) // what is no timer of ours is none
	return events.Millis(at), nil
}

// Timers lists the sessions that have a timer that waits.
func (b *Bus) Timers(ctx context.Context) (list []events.SessionID, err error) {
	subjects, err := b.subjects(ctx, b.names.timerStream(), b.names.timersAt())
	for subject := range subjects {
		if session, ok := b.names.parseTimer(subject); ok {
			list = append(list, session)
		}
	}
	return list, err
}

// Due is a worker's view of the timers whose time has come.
type Due struct {
	b        *Bus
	consumer *consumer
}

// Due joins the workers that handle timers.
func (b *Bus) Due(ctx context.Context) (*Due, error) {
	c, err := b.join(ctx, b.timerConfig(), jetstream.ConsumerConfig{
		Durable: "due", FilterSubject: b.names.timersDue(), AckWait: dueWait,
	})
	return &Due{b, c}, err
}

// dueWait is how long a worker may take over a timer.
const dueWait = 10 * time.Second

// maxEarly is how long a timer is put off at a time. The servers are less than
// a second early, so that a longer wait is due to a clock that is wrong, and
// other workers' may be right.
const maxEarly = time.Second

// Fetch calls ring with the sessions and times of up to n timers, as many as come
// within wait, and then forgets these; where ring fails the timer comes again. A timer that came early, as the server counts
// whole seconds, is put off to its time. A stream that was deleted is made
// again: then remade is true, and every timer is lost.
func (d *Due) Fetch(ctx context.Context, n int, wait time.Duration, ring func(events.SessionID, events.Millis) error) (remade bool, err error) {
	return d.consumer.fetch(ctx, n, wait, func(msg jetstream.Msg) {
		session, ok := d.b.names.parseTimer(msg.Subject())
		at, err := strconv.ParseInt(msg.Headers().Get(headerDue), 10, 64)
		early := time.Until(events.Millis(at).Time())
		switch {
		case !ok || err != nil:
			_ = msg.Term() // no subject of a timer
		case early > 0:
			_ = msg.NakWithDelay(min(early, maxEarly))
		case ring(session, events.Millis(at)) != nil:
			_ = msg.NakWithDelay(maxEarly)
		default:
			_ = msg.Ack()
		}
	})
}
