package bus

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/events"
)

// ServeWorker answers the requests of other workers to this one, from one goroutine, until stop. It answers to
// inboxes only: a request with another reply subject is ignored.
func (b *Bus) ServeWorker(worker events.WorkerID, answer func(request []byte) []byte) (stop func(), err error) {
	return b.listen(b.names.workerRequest(worker), func(m *nats.Msg) {
		if isInbox(m.Reply) {
			_ = m.Respond(answer(m.Data))
		}
	})
}

// RequestWorker sends a request to a worker on any node, until ctx ends. [ErrNoResponder]: the worker does not listen,
// as its process is gone; this is known at once.
func (b *Bus) RequestWorker(ctx context.Context, worker events.WorkerID, request []byte) ([]byte, error) {
	if err := events.CheckToken("worker", worker); err != nil {
		return nil, err
	}
	m, err := b.nc.RequestWithContext(ctx, b.names.workerRequest(worker), request)
	if isNoResponder(err) {
		return nil, fmt.Errorf("request to worker %s: %w", worker, ErrNoResponder)
	}
	if err != nil {
		return nil, fmt.Errorf("request to worker %s: %w", worker, mapError(err))
	}
	return m.Data, nil
}

// Notify notifies a worker that a session it runs has new commits. It is a hint: a worker that misses it finds the
// commits at its next append or read.
func (b *Bus) Notify(worker events.WorkerID, session events.SessionID) error {
	if err := events.CheckToken("worker", worker); err != nil {
		return err
	}
	return mapError(b.nc.Publish(b.names.notify(worker), []byte(session)))
}

// OnNotify delivers the sessions of [Bus.Notify] for one worker.
func (b *Bus) OnNotify(worker events.WorkerID, deliver func(events.SessionID)) (stop func(), err error) {
	return b.listen(b.names.notify(worker), func(m *nats.Msg) {
		switch {
		case m.Reply == "":
			deliver(events.SessionID(m.Data))
		case isInbox(m.Reply):
			_ = m.Respond(nil) // of WorkerGone
		}
	})
}

// goneWait bounds [Bus.WorkerGone].
const goneWait = 100 * time.Millisecond

// WorkerGone reports whether a worker's subscription is gone: its process ended, or lost its connection. The servers
// know this at once. A slow or frozen worker is not gone.
func (b *Bus) WorkerGone(ctx context.Context, worker events.WorkerID) bool {
	if events.CheckToken("worker", worker) != nil {
		return true // no worker has that name
	}
	once, cancel := context.WithTimeout(ctx, goneWait)
	defer cancel()
	_, err := b.nc.RequestWithContext(once, b.names.notify(worker), nil)
	return isNoResponder(err)
}

// Announce publishes that a worker is alive.
func (b *Bus) Announce(worker events.WorkerID) error {
	return mapError(b.nc.Publish(b.names.alive(), []byte(worker)))
}

// OnAnnounce delivers the workers of [Bus.Announce], from one goroutine.
func (b *Bus) OnAnnounce(deliver func(events.WorkerID)) (stop func(), err error) {
	return b.listen(b.names.alive(), func(m *nats.Msg) {
		if worker := events.WorkerID(m.Data); events.CheckToken("worker", worker) == nil {
			deliver(worker)
		}
	})
}

// AnnounceServers publishes which servers of tools a node runs, a JSON object. It goes where workers announce themselves: no worker has
// such a name.
func (b *Bus) AnnounceServers(data []byte) error {
	return mapError(b.nc.Publish(b.names.alive(), data))
}

// OnAnnounceServers delivers what nodes publish with [Bus.AnnounceServers], from one goroutine.
func (b *Bus) OnAnnounceServers(deliver func(data []byte)) (stop func(), err error) {
	return b.listen(b.names.alive(), func(m *nats.Msg) {
		if bytes.HasPrefix(m.Data, []byte("{")) {
			deliver(m.Data)
		}
	})
}
