package chat

import (
	"context"
	"errors"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/operation"
)

// lack is what a session needs and does not have.
type lack int

const (
	lacksNothing lack = iota
	lacksNode         // no node serves
	lacksServers      // JetStream does not answer
)

// silentServers is the status where JetStream does not answer.
const silentServers = "waiting for JetStream, which does not answer: of a cluster more than half of the servers must run, two of three; /healthz of each says what it lacks"

// serving finds out whether a node and JetStream answer, while a chat waits for a node: a turn whose node has left looks as before, until
// another node continues it.
type serving struct {
	talk    *Talk
	found   chan lack // results of the checks
	next    time.Time // of the next check
	running bool
}

// absentWait bounds the request to nodes. A response that says that no node serves arrives at once.
const absentWait = time.Second

func newServing(t *Talk) *serving { return &serving{talk: t, found: make(chan lack, 1)} }

// check starts a check if the view waits for a node, and the last check is [slow] ago.
func (s *serving) check(ctx context.Context, v *View, now time.Time) {
	if s.running || v == nil || !v.needsNode() || now.Before(s.next) {
		return
	}
	s.running, s.next = true, now.Add(slow)
	go func() { s.found <- s.talk.lacks(ctx) }() // the channel has a place for the result of the one check
}

// set sets the result of a check.
func (s *serving) set(v *View, is lack) {
	s.running = false
	if v != nil {
		v.lacks = is
	}
}

// lacks is [lacksNothing] where the answer is not known.
func (t *Talk) lacks(ctx context.Context) lack {
	if t.silent(ctx) {
		return lacksServers
	}
	ctx, cancel := context.WithTimeout(ctx, absentWait)
	defer cancel()
	if err := t.Servers.Serves(ctx, string(operation.ToolCatalog.Name)); errors.Is(err, bus.ErrNoResponder) {
		return lacksNode
	}
	return lacksNothing
}

// silent reports whether servers accept connections, and JetStream does not answer.
func (t *Talk) silent(ctx context.Context) bool {
	err := t.Servers.Answers(ctx)
	return errors.Is(err, events.ErrOutcomeUnknown) && ctx.Err() == nil && t.Servers.Conn().IsConnected()
}
