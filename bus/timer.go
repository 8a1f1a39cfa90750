package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
)

// headerDue says when a timer is due, in ms: the server knows whole seconds only.
const headerDue = "Lash-Due"

// Timer is a message that comes at its time.
type Timer struct {
	Session events.SessionID
	ID      string
	At      events.Millis
	Body    []byte
}

// timerConfig holds timers where they wait, and where they are delivered.
// Schedules exclude a stream that discards new messages, so a timer's first
// publish guards itself.
func (b *Bus) timerConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: b.names.timerStream(), Subjects: []string{b.names.timerAll()},
		Storage: jetstream.FileStorage, Replicas: b.cfg.Replicas, MaxMsgSize: maxMessage,
		Retention: jetstream.WorkQueuePolicy, MaxMsgsPerSubject: 1,
		AllowMsgSchedules: true, AllowMsgTTL: true,
	}
}

// Schedule sets a timer. When it returns nil the timer is as durable as an
// append, and fires once or more at its time, or at once where that has
// passed. The same again is as good; [ErrStale] is another time or body under
// an id whose timer has not been handled yet: that stays.
func (b *Bus) Schedule(ctx context.Context, t Timer) error {
	if err := checkJob(t.Session, t.ID); err != nil {
		return err
	}
	if len(t.Body) > events.MaxCommitBytes {
		return fmt.Errorf("schedule %s: %w", t.ID, &events.FieldError{
			Field: "timer", Reason: fmt.Sprintf("has %d bytes, limit is %d", len(t.Body), events.MaxCommitBytes), Err: events.ErrTooLarge,
		})
	}
	if year := t.At.Time().Year(); t.At < 0 || year > maxYear {
		return fmt.Errorf("schedule %s: %w", t.ID, &events.FieldError{
			Field: "at", Reason: fmt.Sprintf("is in year %d, want 1970 to %d", year, maxYear), Err: events.ErrInvalid,
		})
	}
	for try := 1; ; try++ {
		known, err := b.Timer(ctx, t.Session, t.ID)
		switch {
		case err == nil && known.At == t.At && bytes.Equal(known.Body, t.Body):
			return nil
		case err == nil:
			return fmt.Errorf("schedule %s: %w", t.ID, ErrStale)
		case errors.Is(err, ErrNotFound):
			err = b.schedule(ctx, t)
		}
		if !errors.Is(err, events.ErrMoved) {
			return err
		}
		// Somebody was first, perhaps an earlier try of ours: look again.
		if err := pause(ctx, try); err != nil {
			return fmt.Errorf("schedule %s: %w", t.ID, err)
		}
	}
}

// maxYear is the last one that the server's notation of times has.
const maxYear = 9999

// schedule publishes a timer where none of its id waits.
func (b *Bus) schedule(ctx context.Context, t Timer) error {
	msg := nats.NewMsg(b.names.timerAt(t.Session, t.ID))
	msg.Data = t.Body
	msg.Header.Set(headerDue, strconv.FormatInt(int64(t.At), 10))
	return b.put(ctx, msg,
		jetstream.WithScheduleAt(t.At.Time()), jetstream.WithScheduleTarget(b.names.timerDue(t.Session, t.ID)),
		jetstream.WithExpectLastSequencePerSubject(0))
}

// Timer looks a timer up that waits, or is due and not handled yet; [ErrNotFound] where there is none.
func (b *Bus) Timer(ctx context.Context, session events.SessionID, id string) (Timer, error) {
	if err := checkJob(session, id); err != nil {
		return Timer{}, err
	}
	msg, err := b.last(ctx, b.names.timerStream(), b.names.timerAt(session, id))
	if errors.Is(err, ErrNotFound) { // the order in which a timer moves
		msg, err = b.last(ctx, b.names.timerStream(), b.names.timerDue(session, id))
	}
	if err != nil {
		return Timer{}, err
	}
	return b.timer(msg.Subject, msg.Header, msg.Data)
}

// Timers lists the timers whose time has not come, in no order.
func (b *Bus) Timers(ctx context.Context) iter.Seq2[Timer, error] {
	return func(yield func(Timer, error) bool) {
		for msg, err := range b.lastOf(ctx, b.names.timerStream(), b.names.timersAt()) {
			var t Timer
			if err == nil {
				t, err = b.timer(msg.Subject, msg.Header, msg.Data)
			}
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

// Unschedule forgets a timer. One that is due may be in a worker's hands already; one that is gone is as good.
func (b *Bus) Unschedule(ctx context.Context, session events.SessionID, id string) error {
	if err := checkJob(session, id); err != nil {
		return err
	}
	for _, subject := range []string{b.names.timerAt(session, id), b.names.timerDue(session, id)} {
		msg, err := b.last(ctx, b.names.timerStream(), subject)
		if err == nil {
			err = b.drop(ctx, b.names.timerStream(), subject, msg.Sequence)
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			return fmt.Errorf("unschedule %s: %w", id, err)
		}
	}
	return nil
}

func (b *Bus) timer(subject string, header nats.Header, body []byte) (Timer, error) {
	session, id, ok := b.names.parseTimer(subject)
	at, err := strconv.ParseInt(header.Get(headerDue), 10, 64)
	if !ok || err != nil {
		return Timer{}, fmt.Errorf("timer at %s: %w", subject, events.ErrMalformed)
	}
	return Timer{Session: session, ID: id, At: events.Millis(at), Body: body}, nil
}

// Due is a worker's view of the timers whose time has come.
type Due struct {
	b        *Bus
	consumer jetstream.Consumer
}

// DueTimer is a timer in a worker's hands.
type DueTimer struct {
	Timer
	msg jetstream.Msg
}

// Ack ends the timer.
func (t *DueTimer) Ack() error { return mapError(t.msg.Ack()) }

// GiveBack has it delivered after delay.
func (t *DueTimer) GiveBack(delay time.Duration) error { return mapError(t.msg.NakWithDelay(delay)) }

// Due joins the workers that handle timers.
func (b *Bus) Due(ctx context.Context) (*Due, error) {
	consumer, err := b.join(ctx, b.names.timerStream(), jetstream.ConsumerConfig{
		Durable: "due", FilterSubject: b.names.timersDue(), AckWait: dueWait,
	})
	return &Due{b, consumer}, err
}

// dueWait is how long a worker may take over a timer.
const dueWait = 10 * time.Second

// maxEarly is how long a timer is put off at a time. The servers are less than
// a second early, so that a longer wait is due to a clock that is wrong, and
// other workers' may be right.
const maxEarly = time.Second

// Fetch hands up to n timers to take, as many as come within wait. One that
// came early, as the server counts whole seconds, is put off to its time.
func (d *Due) Fetch(ctx context.Context, n int, wait time.Duration, take func(*DueTimer)) error {
	return d.b.fetch(ctx, d.consumer, n, wait, func(msg jetstream.Msg) {
		t, err := d.b.timer(msg.Subject(), msg.Headers(), msg.Data())
		early := time.Until(t.At.Time())
		switch {
		case err != nil:
			_ = msg.Term() // not ours
		case early > 0:
			_ = msg.NakWithDelay(min(early, maxEarly))
		default:
			take(&DueTimer{t, msg})
		}
	})
}
