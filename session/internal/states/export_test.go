package states

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
