package quota

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/follow"
)

// reloadEvery is the time between two reads of all rows. The reads in between take the rows that changed. They miss rows
// of a directory that was made anew, as its revisions begin again.
const reloadEvery = 10 * time.Minute

// refresh reads the changed rows of the directory.
func (c *Counter) refresh(ctx context.Context) error {
	select {
	case c.refreshing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.refreshing }()
	began := time.Now()
	all := began.Sub(c.loaded) >= reloadEvery
	if all {
		c.after = 0
	}
	seen := make(map[events.SessionID]bool)
	err := c.readRows(ctx, seen)
	if err == nil && c.loaded.IsZero() {
		err = c.readWithoutRows(ctx, seen)
	}
	if err != nil {
		return fmt.Errorf("count what owners have: %w", err)
	}
	if all {
		c.loaded = began
	}
	return nil
}

// readRows counts the rows that changed, and adds their sessions to seen.
func (c *Counter) readRows(ctx context.Context, seen map[events.SessionID]bool) error {
	for stored, err := range c.b.Directory().Changed(ctx, c.after) {
		if err != nil {
			return err
		}
		var row follow.Directory
		if json.Unmarshal(stored.Value, &row) == nil { // a projector repairs a damaged row
			seen[row.Session] = true
			c.countRow(&row)
		}
		c.after = stored.Revision
	}
	return nil
}

func (c *Counter) countRow(row *follow.Directory) {
	now := entry{owner: row.Owner, seq: row.Seq, stored: row.Stored, open: isOpen(row.Status)}
	c.mu.Lock()
	defer c.mu.Unlock()
	old, known := c.sessions[row.Session]
	switch {
	case (now.open || c.limits.Stored > 0) && now.owner != "":
		c.update(row.Session, now)
	case known && now.seq >= old.seq: // no later row can open it again
		c.put(row.Session, entry{owner: old.owner, creating: old.creating})
	}
}

// readWithoutRows counts the sessions that have no row yet: a process that has just started does not know them.
func (c *Counter) readWithoutRows(ctx context.Context, rows map[events.SessionID]bool) error {
	for hot, err := range c.b.Hot(ctx) {
		if err != nil {
			return err
		}
		if rows[hot.ID] || hot.Last == 0 {
			continue
		}
		for entry, err := range c.b.Log().Read(ctx, hot.ID, 1) {
			if errors.Is(err, events.ErrNoSession) || errors.Is(err, events.ErrMalformed) {
				break // it was erased, or cannot be decoded
			}
			if err != nil {
				return err
			}
			c.countOpening(hot.ID, entry)
			break
		}
	}
	return nil
}

// countOpening counts a session by its first commit.
func (c *Counter) countOpening(id events.SessionID, first events.Entry) {
	opened, ok := first.Commit.Events[0].Payload.(*events.SessionOpened)
	if !ok || opened.Owner == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.update(id, entry{owner: opened.Owner, seq: first.Seq, open: true})
}
