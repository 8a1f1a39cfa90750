package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/events"
)

// Answer answers what other workers ask this one, until stop. Answers come
// from one goroutine, and go to inboxes only: a question with another reply
// subject is not looked at.
func (b *Bus) Answer(worker events.WorkerID, answer func(question []byte) []byte) (stop func(), err error) {
	return b.listen(b.names.ask(worker), func(m *nats.Msg) {
		if isInbox(m.Reply) {
			_ = m.Respond(answer(m.Data))
		}
	})
}

// Ask puts a question to a worker, wherever it is, until ctx ends. A worker
// that does not listen is [ErrNotFound], at once: its process is gone.
func (b *Bus) Ask(ctx context.Context, worker events.WorkerID, question []byte) ([]byte, error) {
	if err := events.CheckToken("worker", worker); err != nil {
		return nil, err
	}
	m, err := b.nc.RequestWithContext(ctx, b.names.ask(worker), question)
	if isUnheard(err) {
		return nil, fmt.Errorf("ask worker %s: %w", worker, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("ask worker %s: %w", worker, mapError(err))
	}
	return m.Data, nil
}

// Notify tells a worker that a session it runs has moved. It is a hint: a
// worker that misses it finds out at its next append or look.
func (b *Bus) Notify(worker events.WorkerID, session events.SessionID) error {
	if err := events.CheckToken("worker", worker); err != nil {
		return err
	}
	return mapError(b.nc.Publish(b.names.notify(worker), []byte(session)))
}

// Notified delivers the sessions that [Bus.Notify] names to one worker.
func (b *Bus) Notified(worker events.WorkerID, deliver func(events.SessionID)) (stop func(), err error) {
	return b.listen(b.names.notify(worker), func(m *nats.Msg) {
		switch {
		case m.Reply == "":
			deliver(events.SessionID(m.Data))
		case isInbox(m.Reply):
			_ = m.Respond(nil) // of Gone
		}
	})
}

// goneWait is how long [Bus.Gone] waits for an answer.
const goneWait = 100 * time.Millisecond

// Gone reports whether a worker listens no more, which the servers know at
// once: its process ended, or lost its connection just now. A worker that is
// slow or frozen is not gone.
func (b *Bus) Gone(ctx context.Context, worker events.WorkerID) bool {
	once, cancel := context.WithTimeout(ctx, goneWait)
	defer cancel()
	_, err := b.nc.RequestWithContext(once, b.names.notify(worker), nil)
	return isUnheard(err)
}

// Announce says that a worker is there.
func (b *Bus) Announce(worker events.WorkerID) error {
	return mapError(b.nc.Publish(b.names.alive(), []byte(worker)))
}

// Announced delivers what workers say with [Bus.Announce], from one goroutine.
func (b *Bus) Announced(deliver func(events.WorkerID)) (stop func(), err error) {
	return b.listen(b.names.alive(), func(m *nats.Msg) {
		if worker := events.WorkerID(m.Data); events.CheckToken("worker", worker) == nil {
			deliver(worker)
		}
	})
}
