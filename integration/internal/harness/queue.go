package harness

import (
	"context"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/turn"
)

// Wakes lists the wakes of the queue.
func (b *System) Wakes() map[bus.WakeKey]bool {
	b.T.Helper()
	list, err := b.Bus.Wakes(b.Ctx)
	runtest.WantError(b.T, "wakes", err, nil)
	return list
}

// HasWake reports whether the queue has a wake of a session.
func (b *System) HasWake(id events.SessionID) bool {
	b.T.Helper()
	return b.Wakes()[bus.WakeKey{Class: bus.ClassTurn, Session: id}]
}

// AwaitUnqueued waits until a session has no pending work and no wake: its turns have ended, or are parked.
func (b *System) AwaitUnqueued(id events.SessionID) {
	b.T.Helper()
	b.AwaitPolling("session "+string(id)+" rests", func() bool {
		return !turn.NeedsWorker(b.StateOf(id), events.MillisOf(time.Now())) && !b.HasWake(id)
	})
}

// DeadAttempts is the number of attempts of a job on the nodes of these tests.
const DeadAttempts = 3

// AwaitPolling calls ok repeatedly until it is true, because the server sends no notice of changes in its queues.
func (b *System) AwaitPolling(what string, ok func() bool) {
	b.T.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-b.Ctx.Done():
			b.T.Fatalf("until %s: %v", what, context.Cause(b.Ctx))
		}
	}
}

// DeadLetters lists the ids of the sessions with a dead letter.
func (b *System) DeadLetters() (ids []string) {
	b.T.Helper()
	for letter, err := range b.Bus.DeadLetters(b.Ctx) {
		runtest.NoError(b.T, err)
		ids = append(ids, string(letter.Session))
	}
	return ids
}
