package states

import (
	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
)

// Subscriptions counts the subscriptions, used or not.
func (c *Cache) Subscriptions() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.subscriptions)
}

// Empty counts the entries without a state.
func (c *Cache) Empty() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.empty)
}

// Received delivers a live commit.
func (c *Cache) Received(id events.SessionID, m bus.LiveMessage) { c.received(id, m) }
