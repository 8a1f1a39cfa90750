package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/workers/playback"
)

// load is the clients that drive conversations.
type load struct {
	o              *options
	chats          *chats
	player         *playback.Player
	host           *session.Host
	turns          atomic.Int64 // ended
	errorsSurvived atomic.Int64 // errors after which a client continued

	mu      sync.Mutex
	started []*conversation
	mcp     []*asking // sessions that call tools of the servers of the Model Context Protocol
	agents  []*asking // sessions whose turns start agents, or kill their nodes
}

// conversation is one that has started.
type conversation struct {
	plan *playback.Plan
	err  error // the reason why it did not finish
}

// run plays conversations repeatedly until ctx ends. Then it finishes those that have started, until limit ends.
func (l *load) run(ctx, limit context.Context) error {
	var all sync.WaitGroup
	var next atomic.Int64
	errs := make(chan error, l.o.Sessions)
	for range l.o.Sessions {
		all.Go(func() {
			for ctx.Err() == nil {
				n := int(next.Add(1)) - 1
				if err := l.play(limit, sessionOf(n, n%len(l.chats.convs))); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}

// play drives one conversation, and continues after errors.
func (l *load) play(ctx context.Context, id events.SessionID) error {
	plan, err := l.chats.plan(id)
	if err == nil {
		err = l.player.Add(plan)
	}
	if err != nil {
		return err
	}
	c := &conversation{plan: plan}
	l.mu.Lock()
	l.started = append(l.started, c)
	l.mu.Unlock()
	done := 0 // steps
	for {
		at := 0
		c.err = l.player.Play(ctx, plan, func(s *playback.Step) {
			if at++; at > done && s.Turn != nil {
				l.turns.Add(1)
			}
			done = max(done, at)
		})
		if c.err == nil || ctx.Err() != nil {
			return nil
		}
		l.errorsSurvived.Add(1)
		say("a client goes on after: %v", c.err)
		if !delay.Sleep(ctx, 200*time.Millisecond) {
			return nil
		}
	}
}
