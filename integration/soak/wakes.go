package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
)

// queueWait bounds a request to the queue. Disturbed servers may not answer.
const queueWait = 2 * time.Second

// kill kills a node. For [FaultWakes] it then purges the queue within milliseconds. The worker that watches it notices
// the death after half a second and wakes the sessions that have a wake, so the purge is earlier.
func (t *injector) kill(ctx context.Context, i *incident, n *member) error {
	t.queue.Lock()
	defer t.queue.Unlock()
	unbounded := context.WithoutCancel(ctx)
	i.wakes = wakesOf(unbounded, t.bus)
	i.At = time.Now()
	n.child.kill()
	if i.Fault != FaultWakes {
		return nil
	}
	err := purgeWakes(unbounded, t.bus)
	switch {
	case errors.Is(err, bus.ErrNotFound):
		return fmt.Errorf("lose the wakes: %w", err)
	case err == nil:
		i.Lost = time.Now()
	}
	return nil
}

// wakesOf are the sessions that have a wake in the queue, delivered or not. nil: the queue does not answer.
func wakesOf(ctx context.Context, b *bus.Bus) map[events.SessionID]bool {
	once, cancel := context.WithTimeout(ctx, queueWait)
	defer cancel()
	wakes, err := b.Wakes(once)
	if err != nil {
		return nil
	}
	list := make(map[events.SessionID]bool)
	for key := range wakes {
		if key.Class.OfTurns() {
			list[key.Session] = true
		}
	}
	return list
}

// purgeWakes removes every wake from the queue, delivered or not.
func purgeWakes(ctx context.Context, b *bus.Bus) error {
	once, cancel := context.WithTimeout(ctx, queueWait)
	defer cancel()
	return b.PurgeWakes(once)
}
