package chat

import (
	"context"
	"errors"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
)

// serving finds out whether a node serves, while a chat waits for one: a turn whose node has left looks as before, until
// another node continues it.
type serving struct {
	talk    *Talk
	found   chan bool // results of the checks: no node serves
	next    time.Time // of the next check
	running bool
}

// absentWait bounds one check. A response that says that no node serves arrives at once.
const absentWait = time.Second

func newServing(t *Talk) *serving { return &serving{talk: t, found: make(chan bool, 1)} }

// check starts a check if the view waits for a node, and the last check is [slow] ago.
func (s *serving) check(ctx context.Context, id events.SessionID, v *View, now time.Time) {
	if s.running || v == nil || !v.needsNode() || now.Before(s.next) {
		return
	}
	s.running, s.next = true, now.Add(slow)
	go func() { s.found <- s.talk.unserved(ctx, id) }() // the channel has a place for the result of the one check
}

// set sets the result of a check.
func (s *serving) set(v *View, unserved bool) {
	s.running = false
	if v != nil {
		v.unserved = unserved
	}
}

// unserved reports whether no node serves. It is false where that is not known.
func (t *Talk) unserved(ctx context.Context, id events.SessionID) bool {
	ctx, cancel := context.WithTimeout(ctx, absentWait)
	defer cancel()
	_, err := t.Service.ToolCatalog(ctx, id) // any request that a node answers, and that changes nothing
	return errors.Is(err, bus.ErrNoResponder) && !errors.Is(err, events.ErrOutcomeUnknown)
}
