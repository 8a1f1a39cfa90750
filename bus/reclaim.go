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

// goneWait is how long [Bus.Gone] waits for an answer.
const goneWait = 100 * time.Millisecond

// Gone reports whether nobody listens to a worker's pokes, which the servers
// know at once: its process ended, or lost its connection just now. A worker
// that is slow or frozen is not gone.
func (b *Bus) Gone(ctx context.Context, worker events.WorkerID) bool {
	once, cancel := context.WithTimeout(ctx, goneWait)
	defer cancel()
	_, err := b.nc.RequestWithContext(once, b.names.poke(worker), nil)
	return isUnheard(err)
}

// Announce says that a worker is there.
func (b *Bus) Announce(worker events.WorkerID) error {
	return mapError(b.nc.Publish(b.names.alive(), []byte(worker)))
}

// Announced delivers what workers say with [Bus.Announce], from one goroutine.
func (b *Bus) Announced(deliver func(events.WorkerID)) (stop func(), err error) {
	return b.listen(b.names.alive(), "", func(m *nats.Msg) {
		if worker := events.WorkerID(m.Data); events.CheckToken("worker", worker) == nil {
			deliver(worker)
		}
	})
}

// JobName names a job in the queue.
type JobName struct {
	Session events.SessionID
	ID      string
}

// Jobs lists the jobs of a class, in anybody's hands or in nobody's, in no order.
func (b *Bus) Jobs(ctx context.Context, class Class) (list []JobName, err error) {
	subjects, err := b.subjects(ctx, b.names.workStream(), b.names.workClass(class))
	for subject := range subjects {
		if session, id, ok := b.names.parseWork(subject); ok {
			list = append(list, JobName{session, id})
		}
	}
	return list, err
}

// Reclaims takes jobs out of the hands of workers that are gone.
type Reclaims struct {
	b         *Bus
	class     Class
	stream    jetstream.Stream
	delivered uint64 // deliveries so far
}

// Reclaims begins to take jobs of a class that were delivered before now.
func (b *Bus) Reclaims(ctx context.Context, class Class) (*Reclaims, error) {
	once, cancel := b.timeout(ctx)
	defer cancel()
	stream, err := b.js.Stream(once, b.names.workStream())
	if err != nil {
		return nil, fmt.Errorf("reclaim jobs: %w", mapError(err))
	}
	consumer, err := stream.Consumer(once, string(class))
	if err != nil {
		return nil, fmt.Errorf("reclaim jobs: %w", mapError(err))
	}
	return &Reclaims{b, class, stream, consumer.CachedInfo().Delivered.Consumer}, nil
}

// Take has the queue deliver a job again, at once instead of after [AckWait].
// The evidence names what makes the caller think that its worker is gone. Of
// all who have the same evidence within two minutes one does it, so that no
// second worker is sent after the first that took over; first says whether it
// was this one. Where the job is in nobody's hands, or done, nothing happens.
func (r *Reclaims) Take(ctx context.Context, job JobName, evidence string) (first bool, err error) {
	once, cancel := r.b.timeout(ctx)
	defer cancel()
	msg, err := r.stream.GetLastMsgForSubject(once, r.b.names.work(r.class, job.Session, job.ID))
	if err = mapError(err); errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reclaim %s: %w", job.ID, err)
	}
	if first, err = r.b.first(once, job.Session, evidence); err != nil || !first {
		return false, err
	}
	// The server finds the delivery by the message; the number need only be of one that is not settled.
	return true, mapError(r.b.nc.Publish(r.b.names.ack(r.class, msg.Sequence, r.delivered), []byte("-NAK")))
}

// first reports whether nobody else came with the same evidence. What it
// publishes is a dirty mark, which the projectors are glad to get.
func (b *Bus) first(ctx context.Context, session events.SessionID, evidence string) (bool, error) {
	ack, err := b.js.Publish(ctx, b.names.dirty(session), nil, jetstream.WithMsgID(evidence))
	if err != nil {
		return false, fmt.Errorf("reclaim a job of %s: %w", session, mapError(err))
	}
	return !ack.Duplicate, nil
}
