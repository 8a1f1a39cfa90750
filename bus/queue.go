package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
)

// Enqueue publishes one durable command. [ErrQueued] says that the same one
// waits already, which is as good; it is [events.ErrOutcomeUnknown] too where a
// try of this call may have put it there. When it returns nil the command is as
// durable as an append.
func (b *Bus) Enqueue(ctx context.Context, class Class, session events.SessionID, id string, body []byte) error {
	if err := checkJob(session, id); err != nil {
		return err
	}
	if len(body) > events.MaxCommitBytes {
		return fmt.Errorf("enqueue %s: %w", id, &events.FieldError{
			Field: "command", Reason: fmt.Sprintf("has %d bytes, limit is %d", len(body), events.MaxCommitBytes), Err: events.ErrTooLarge,
		})
	}
	for try := 1; ; try++ {
		err := b.once(ctx, func(ctx context.Context) error {
			_, err := b.js.PublishMsg(ctx, &nats.Msg{Subject: b.names.work(class, session, id), Data: body}, jetstream.WithRetryAttempts(0))
			return err
		})
		if err == nil || !isUnknown(err) {
			if try > 1 && errors.Is(err, ErrQueued) {
				err = fmt.Errorf("%w: %w", err, events.ErrOutcomeUnknown)
			}
			return err
		}
		// Publishing again is safe: a first try that landed answers ErrQueued.
		if pause(ctx, try) != nil {
			return fmt.Errorf("enqueue %s: %w", id, err)
		}
	}
}

func checkJob(session events.SessionID, id string) error {
	return errors.Join(events.CheckToken("session", session), events.CheckToken("id", id))
}

// Queued is the body of a command that waits in the queue, or is worked on. One
// that does not, or not any more, is [ErrNotFound].
func (b *Bus) Queued(ctx context.Context, class Class, session events.SessionID, id string) ([]byte, error) {
	if err := checkJob(session, id); err != nil {
		return nil, err
	}
	msg, err := b.last(ctx, b.names.workStream(), b.names.work(class, session, id))
	if err != nil {
		return nil, err
	}
	return msg.Data, nil
}

// Backlog is how many commands of a session wait in the queue, or are worked on.
func (b *Bus) Backlog(ctx context.Context, class Class, session events.SessionID) (n int, err error) {
	if err := events.CheckToken("session", session); err != nil {
		return 0, err
	}
	subjects, err := b.subjects(ctx, b.names.workStream(), b.names.workSession(class, session))
	return len(subjects), err
}

// Backlogs lists the commands of a class that wait in the queue, or are worked on, in no order.
func (b *Bus) Backlogs(ctx context.Context, class Class) (map[events.SessionID][]string, error) {
	jobs, err := b.Jobs(ctx, class)
	list := make(map[events.SessionID][]string)
	for _, j := range jobs {
		list[j.Session] = append(list[j.Session], j.ID)
	}
	return list, err
}

// Job is a command in a worker's hands.
type Job struct {
	Session    events.SessionID
	ID         string
	Body       []byte
	Came       time.Time // when it was delivered
	Deliveries int       // 1 the first time; more when an earlier worker went quiet or gave it back
	Tries      Tries     // as [Job.LoadTries] found or [Job.SaveTries] left them
	msg        jetstream.Msg
	b          *Bus
	class      Class
	seq        uint64 // in the queue
}

// Class is the job's class.
func (j *Job) Class() Class { return j.class }

// Ack ends the job.
func (j *Job) Ack() error { return mapError(j.msg.Ack()) }

// Progress says that the worker is alive; the queue waits another [AckWait].
func (j *Job) Progress() error { return mapError(j.msg.InProgress()) }

// Hold is [Job.Progress], and waits until the queue has it: for [AckWait] from
// when Hold was called, nobody else gets the job.
func (j *Job) Hold(ctx context.Context) error { return j.tell(ctx, "+WPI") }

// HandBack is [Job.GiveBack] at once, and waits until the queue has it: whoever
// takes from the queue then, gets it before what came later.
func (j *Job) HandBack(ctx context.Context) error { return j.tell(ctx, "-NAK") }

// tell says how the job stands, and waits until the queue knows.
func (j *Job) tell(ctx context.Context, how string) error {
	once, cancel := context.WithTimeout(ctx, AckWait)
	defer cancel()
	_, err := j.b.nc.RequestWithContext(once, j.msg.Reply(), []byte(how))
	return mapError(err)
}

// GiveBack returns the job to the queue, to be delivered after delay; at once
// where that is 0, before what came later. It counts as a delivery.
func (j *Job) GiveBack(delay time.Duration) error {
	if delay <= 0 {
		return mapError(j.msg.Nak()) // a delay of 0 would wait for a timer of the server's
	}
	return mapError(j.msg.NakWithDelay(delay))
}

// Work is a worker's view of one class of the queue.
type Work struct {
	b        *Bus
	class    Class
	consumer jetstream.Consumer
}

// Work joins the workers of a class.
func (b *Bus) Work(ctx context.Context, class Class) (*Work, error) {
	consumer, err := b.join(ctx, b.names.workStream(), jetstream.ConsumerConfig{
		Durable: string(class), FilterSubject: b.names.workClass(class), AckWait: AckWait,
	})
	return &Work{b, class, consumer}, err
}

// Fetch takes up to n jobs, as many as come within wait, and hands each to
// take as it arrives. Each job should be begun at once: what waits in a
// worker's memory would be delivered to another after [AckWait].
func (w *Work) Fetch(ctx context.Context, n int, wait time.Duration, take func(*Job)) error {
	return w.b.fetch(ctx, w.consumer, n, wait, func(msg jetstream.Msg) { w.take(msg, take) })
}

// Take is [Work.Fetch] of what nobody took so far. It waits for nothing, and
// so takes nothing away from workers that do.
func (w *Work) Take(ctx context.Context, n int, take func(*Job)) error {
	batch, err := w.consumer.FetchNoWait(n)
	if err != nil {
		return fmt.Errorf("take work: %w", mapError(err))
	}
	return w.b.takeAll(ctx, batch, func(msg jetstream.Msg) { w.take(msg, take) })
}

// Wanted reports whether a worker of the class waits for jobs.
func (w *Work) Wanted(ctx context.Context) (bool, error) {
	var info *jetstream.ConsumerInfo
	err := w.b.once(ctx, func(ctx context.Context) (err error) {
		info, err = w.consumer.Info(ctx)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("look at the workers: %w", err)
	}
	return info.NumWaiting > 0, nil
}

func (w *Work) take(msg jetstream.Msg, take func(*Job)) {
	session, id, ok := w.b.names.parseWork(msg.Subject())
	meta, err := msg.Metadata()
	if !ok || err != nil {
		_ = msg.Term() // not ours: a subject that no command of ours has
		return
	}
	take(&Job{
		Session: session, ID: id, Body: msg.Data(), Came: time.Now(), Deliveries: int(meta.NumDelivered),
		msg: msg, b: w.b, class: w.class, seq: meta.Sequence.Stream,
	})
}
