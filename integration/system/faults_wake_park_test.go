package system

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// tapped is a connection that calls a function when an ack of a turn's wake is written.
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
	s.T.Helper()
	b, err := bus.Open(s.Ctx, bus.Config{URL: s.url, Replicas: s.replicas, Options: []nats.Option{nats.SetCustomDialer(&taps{before, after})}})
	runtest.WantError(s.T, "open", err, nil)
	s.T.Cleanup(b.Close)
	return b
}

// grants answers the approval of a session, once.
func (s *site) grants(h *session.Host, id events.SessionID) func() {
	var once sync.Once
	return func() {
		once.Do(func() {
			runtest.WantError(s.T, "approve", s.AnswerApproval(h, id, true), nil)
			runtest.WantError(s.T, "flush", s.Bus.Conn().Flush(), nil)
		})
	}
}

// TestWakeAnswerAtAck answers an approval when the worker that parks the turn has decided to ack. In the log and
// in the queue the answer stands before the ack, or right behind it. The turn continues.
func TestWakeAnswerAtAck(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]bool{"before_the_ack": true, "behind_the_ack": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onSites(t, func(s *site) {
				g := &harness.Approver{}
				s.Model.Script = []harness.Step{harness.CallAdd(), harness.Reply(harness.Text("3"))}
				id := s.Open(api.CreateRequest{})
				grant, nothing := s.grants(s.Host, id), func() {}
				on := s.tap(grant, nothing)
				if !first {
					on = s.tap(nothing, grant)
				}
				s.StartNodeOn(on, g.Factory(events.EffectsNonIdempotent))
				s.StartTurn(id, "t1", harness.Text("1+2?"))
				runtest.Equal(t, "end", s.AwaitTurn(id, "t1").End, events.EndFinished)
				runtest.Equal(t, "runs", g.Runs.Load(), 1)
				s.AwaitUnqueued(id)
				harness.VerifyHistory(t, s.Bus, id)
			})
		})
	}
}

// TestWakeAnswerAnytime answers approvals a random number of steps of other goroutines after the question, and so around the ack, on
// two nodes: every turn continues.
func TestWakeAnswerAnytime(t *testing.T) {
	t.Parallel()
	onSites(t, func(s *site) {
		const seed = 20260417
		random := rand.New(rand.NewPCG(seed, 0))
		g := &harness.Approver{}
		times := s.share(300, 60)
		for range times {
			s.Model.Script = append(s.Model.Script, harness.CallAdd(), harness.Reply(harness.Text("3")))
		}
		for range 2 {
			s.StartNodeOn(s.connect(), g.Factory(events.EffectsNonIdempotent))
		}
		for n := range times {
			id := events.SessionID(fmt.Sprintf("p%03d", n))
			s.Open(api.CreateRequest{ID: id})
			s.StartTurn(id, "t1", harness.Text("1+2?"))
			steps := random.IntN(3000)
			if n%2 == 0 { // else as soon as there is a question
				s.AwaitState(id, "question", harness.HasAsk)
				for range steps {
					runtime.Gosched()
				}
			}
			err := api.ErrNotAsked
			for errors.Is(err, api.ErrNotAsked) && s.Ctx.Err() == nil {
				err = s.AnswerApproval(s.Host, id, true)
			}
			runtest.WantError(s.T, "approve", err, nil)
			runtest.Equal(s.T, fmt.Sprintf("end of %s, answered after %d steps, seed %d", id, steps, seed), s.AwaitTurn(id, "t1").End, events.EndFinished)
		}
		runtest.Equal(s.T, "runs", g.Runs.Load(), int64(times))
	})
}
