package integration

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// tapped is a connection on which something happens when an ack of a turn's wake is written.
type tapped struct {
	net.Conn
	before, after func()
}

func (c *tapped) Write(data []byte) (int, error) {
	if !bytes.Contains(data, []byte("$JS.ACK."+workStream+".turn.")) || !bytes.Contains(data, []byte("+ACK")) {
		return c.Conn.Write(data)
	}
	c.before()
	n, err := c.Conn.Write(data)
	c.after()
	return n, err
}

// taps dials such connections.
type taps struct{ before, after func() }

func (d *taps) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	return &tapped{Conn: conn, before: d.before, after: d.after}, err
}

// tap is a bus of a process over such a connection.
func (s *site) tap(before, after func()) *bus.Bus {
	s.t.Helper()
	b, err := bus.Open(s.ctx, bus.Config{URL: s.url, Replicas: s.replicas, Options: []nats.Option{nats.SetCustomDialer(&taps{before, after})}})
	must(s.t, "open", err, nil)
	s.t.Cleanup(b.Close)
	return b
}

// grants answers the question of a session, once.
func (s *site) grants(h *session.Host, id events.SessionID) func() {
	var once sync.Once
	return func() {
		once.Do(func() {
			if err := s.approve(h, id, true); err != nil {
				s.t.Errorf("approve: %v", err)
			}
			if err := s.bus.Conn().Flush(); err != nil {
				s.t.Errorf("flush: %v", err)
			}
		})
	}
}

// TestWakeAnswerAtAck answers an approval when the worker that parks the turn
// has decided to ack: in the log and in the queue the answer stands before the
// ack, or right behind it. The turn goes on.
func TestWakeAnswerAtAck(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]bool{"before_the_ack": true, "behind_the_ack": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onSites(t, func(s *site) {
				g := &asker{}
				s.model.script = []step{theCall(), reply(text("3"))}
				id := s.open(api.CreateRequest{})
				grant, nothing := s.grants(s.Host, id), func() {}
				on := s.tap(grant, nothing)
				if !first {
					on = s.tap(nothing, grant)
				}
				s.nodeOn(on, g.factory(events.EffectsNonIdempotent))
				s.submit(id, "t1", text("1+2?"))
				equal(t, "end", s.ended(id, "t1").End, events.EndFinished)
				equal(t, "runs", g.runs.Load(), 1)
				s.unqueued(id)
				verified(t, s.bus, id)
			})
		})
	}
}

// TestWakeAnswerAnytime answers approvals at random times around the ack, of
// two nodes: every turn goes on.
func TestWakeAnswerAnytime(t *testing.T) {
	t.Parallel()
	onSites(t, func(s *site) {
		const seed = 20260417
		random := rand.New(rand.NewPCG(seed, 0))
		g := &asker{}
		times := s.share(300, 60)
		for range times {
			s.model.script = append(s.model.script, theCall(), reply(text("3")))
		}
		for range 2 {
			s.nodeOn(s.connect(), g.factory(events.EffectsNonIdempotent))
		}
		for n := range times {
			id := events.SessionID(fmt.Sprintf("p%03d", n))
			s.open(api.CreateRequest{ID: id})
			s.submit(id, "t1", text("1+2?"))
			wait := time.Duration(random.IntN(3000)) * time.Microsecond
			if n%2 == 0 { // else as soon as there is a question
				s.await(id, "question", hasAsk)
				<-time.After(wait)
			}
			err := api.ErrNotAsked
			for errors.Is(err, api.ErrNotAsked) && s.ctx.Err() == nil {
				err = s.approve(s.Host, id, true)
			}
			must(s.t, "approve", err, nil)
			equal(s.t, fmt.Sprintf("end of %s, answered after %v, seed %d", id, wait, seed), s.ended(id, "t1").End, events.EndFinished)
		}
		equal(s.t, "runs", g.runs.Load(), int64(times))
	})
}
