package external

import (
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/plugin/wire"
)

// twin is one of several programs with one id.
type twin struct {
	*client
	term    string
	refused atomic.Pointer[wire.Error] // of a registration that nodes asked for
	silent  atomic.Bool                // it sends no signs of life
	holds   atomic.Bool                // it answers no calls
	ran     atomic.Int64
}

// twin starts a program with the id i1 that keeps to the rules of terms, and registers it.
func (s *setting) twin() *twin {
	s.T.Helper()
	w := &twin{client: s.client()}
	own := w.prefix + ".plugin.notes.i1."
	answer := w.request("notes", "register", registration("1", "once"))
	if answer.Error != nil {
		s.T.Fatalf("registration: %v", answer.Error)
	}
	if w.term = answer.Term; w.term == "" {
		s.T.Fatal("the node gives no term")
	}
	w.on(own+"call", func(m *nats.Msg) {
		var in wire.Call
		_ = json.Unmarshal(m.Data, &in)
		if in.Term == "" || in.Term == w.term {
			if w.ran.Add(1); w.holds.Load() {
				return
			}
			_ = m.Respond([]byte(`{"outcome":{"text":"done"}}`))
		}
	})
	w.on(own+"register", func(*nats.Msg) {
		r := registration("1", "once")
		r.Term = w.term
		data, _ := json.Marshal(r)
		m, err := w.nc.Request(w.prefix+".plugins.notes.register", data, time.Minute)
		var again wire.Registered
		if err == nil && json.Unmarshal(m.Data, &again) == nil && again.Error != nil {
			w.refused.Store(again.Error)
			w.silent.Store(true)
		}
	})
	sign, _ := json.Marshal(&wire.Sign{Hash: answer.Hash, Term: w.term})
	go func() { // ends with the connection
		signs := time.NewTicker(wire.SignEvery / 4)
		defer signs.Stop()
		for ; !w.nc.IsClosed(); <-signs.C {
			if !w.silent.Load() {
				_ = w.nc.Publish(w.prefix+".plugin-live.notes.i1", sign)
			}
		}
	}()
	return w
}

func (c *client) on(subject string, handle func(*nats.Msg)) {
	c.t.Helper()
	_, err := c.nc.Subscribe(subject, handle)
	runtest.WantError(c.t, "subscribe", err, nil)
	runtest.WantError(c.t, "flush", c.nc.Flush(), nil)
}

// TestProgramsWithOneID starts a second program with the id of a living one: it is refused. A program that was frozen when the second one
// registered is told when it goes on. Each call runs once.
func TestProgramsWithOneID(t *testing.T) {
	t.Parallel()
	s := start(t, harness.Reply(harness.Call("k1", "once", `{}`)), harness.Reply(harness.Text("one")), harness.Reply(harness.Call("k2", "once", `{}`)), harness.Reply(harness.Text("two")))
	s.node()
	first := s.twin()
	s.alive(1)
	if got := first.request("notes", "register", registration("1", "once")); got.Error == nil || got.Error.Code != wire.CodeConflict || got.Error.Field != "instance" {
		t.Fatalf("a second program: got %+v, want a conflict of the instance", got)
	}
	first.silent.Store(true) // frozen
	s.AwaitPolling("the end of the lease", func() bool { return len(s.first.Status()[0].Instances) == 0 })
	second := s.twin()
	s.alive(1)
	first.silent.Store(false)
	s.AwaitPolling("the refusal of the first program", func() bool { return first.refused.Load() != nil })
	runtest.Equal(t, "code", first.refused.Load().Code, wire.CodeConflict)
	if second.refused.Load() != nil {
		t.Errorf("the second program is refused: %v", second.refused.Load())
	}
	id := s.begin()
	s.AwaitTurn(id, "t1")
	runtest.Equal(t, "result", s.CallResult(id, "k1"), "done")
	s.RunTurn(id, "t2", harness.Text("again"))
	runtest.Equal(t, "result", s.CallResult(id, "k2"), "done")
	runtest.Equal(t, "calls of the first program", first.ran.Load(), 0)
	runtest.Equal(t, "calls of the second program", second.ran.Load(), 2)
}

// TestProgramStartsAgain ends a program with a fixed id, and starts it again at once, several times: each is registered with its first
// requests, without a refusal, and has the calls.
func TestProgramStartsAgain(t *testing.T) {
	t.Parallel()
	s := start(t, harness.Reply(harness.Call("k1", "once", `{}`)), harness.Reply(harness.Text("one")))
	s.node()
	for range 2 {
		first := s.twin()
		s.alive(1)
		first.nc.Close()
	}
	last := s.twin()
	s.AwaitPolling("the term of the last program", func() bool {
		list := s.first.Status()[0].Instances
		return len(list) == 1 && last.term > ""
	})
	id := s.begin()
	s.AwaitTurn(id, "t1")
	runtest.Equal(t, "result", s.CallResult(id, "k1"), "done")
	runtest.Equal(t, "calls of the last program", last.ran.Load(), 1)
}

// TestNodeListensFirst starts a node again while a copy of a living program waits for one: the copy is refused, although its request comes
// before the first sign of life of the other program, which goes on.
func TestNodeListensFirst(t *testing.T) {
	t.Parallel()
	s := start(t, harness.Reply(harness.Call("k1", "once", `{}`)), harness.Reply(harness.Text("one")))
	kill := s.node()
	first := s.twin()
	s.alive(1)
	kill()
	s.first.Stop()
	answer := make(chan wire.Registered, 1)
	go func() { answer <- s.client().request("notes", "register", registration("1", "once")) }()
	s.node()
	if got := <-answer; got.Error == nil || got.Error.Code != wire.CodeConflict {
		t.Errorf("the copy: got %+v, want a conflict", got)
	}
	id := s.begin()
	s.AwaitTurn(id, "t1")
	runtest.Equal(t, "calls of the first program", first.ran.Load(), 1)
	if first.refused.Load() != nil {
		t.Errorf("the first program is refused: %v", first.refused.Load())
	}
}

// TestCallOfAnEarlierProgramAfterANode has a program die with a call that must not run twice, and its node, too. The program starts again
// with its id, and a node takes the turn over that has heard only the later program: the call is lost, and does not run again.
func TestCallOfAnEarlierProgramAfterANode(t *testing.T) {
	t.Parallel()
	s := start(t, harness.Reply(harness.Call("k1", "once", `{}`)), harness.Reply(harness.Text("one")))
	kill := s.node()
	first := s.twin()
	s.alive(1)
	first.holds.Store(true)
	calls := s.sentCalls()
	id := s.begin()
	s.sent(calls)
	kill()
	first.nc.Close()
	second := s.twin() // registered by what is left of the first node
	s.first.Stop()
	s.node()
	s.AwaitTurn(id, "t1")
	runtest.Equal(t, "calls of the first program", first.ran.Load(), 1)
	runtest.Equal(t, "calls of the second program", second.ran.Load(), 0)
	runtest.Equal(t, "result", s.CallResult(id, "k1"), projector.LostText)
}
