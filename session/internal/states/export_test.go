package states

// Empty counts the entries without a state.
func (c *Cache) Empty() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.empty)
}
