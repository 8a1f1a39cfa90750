package external

import (
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin/wire"
)

// starting has instances of scope session whose answer to a start is that of the function, which gets the number of the
// start, from 1, and what stops the instance's signs of life. The tool look may repeat, and has 9 s, less than a start may take.
func (s *setting) starting(instances []string, answer func(n int, freeze func()) any) {
	s.T.Helper()
	c, n := s.client(), 0
	m := wire.Manifest{Version: "1", Scope: wire.ScopeSession, Tools: []wire.Tool{{Name: "look", Effects: events.EffectsIdempotent, TimeoutMS: 9000}}}
	for _, instance := range instances {
		if got := c.request("notes", "register", &wire.Registration{Protocol: wire.Version, Instance: instance, Manifest: m}); got.Error != nil {
			s.T.Fatalf("register: %+v", got.Error)
		}
		freeze := s.signing(c, "notes", instance, m.Hash())
		_, err := c.nc.Subscribe(c.prefix+".plugin.notes."+instance+".session_start", func(msg *nats.Msg) { // one at a time
			n++
			if out := answer(n, freeze); out != nil {
				data, _ := json.Marshal(out)
				_ = msg.Respond(data)
			}
		})
		runtest.WantError(s.T, "subscribe", err, nil)
		_, err = c.nc.Subscribe(c.prefix+".plugin.notes."+instance+".call", func(msg *nats.Msg) {
			data, _ := json.Marshal(wire.Progress{Outcome: &wire.Outcome{Text: "noted"}})
			_ = msg.Respond(data)
		})
		runtest.WantError(s.T, "subscribe", err, nil)
	}
	s.known(s.first, "notes", len(instances))
}

// TestInstanceFreezesAtTheStart freezes the instance that gets the start of a session. The session starts on another one
// when the lease of the first one is over, and not after the whole time of a start.
func TestInstanceFreezesAtTheStart(t *testing.T) {
	t.Parallel()
	s := start(t, calling("look", `{}`)...)
	s.node()
	s.starting([]string{"b1", "b2"}, func(n int, freeze func()) any {
		if n == 1 {
			freeze()
			return nil
		}
		return wire.Placed{}
	})
	id := s.begin()
	s.AwaitTurn(id, "t1")
	s.wantResult(id, "noted")
}

// TestCancelWhileASessionStarts cancels a turn whose call waits for the start of its session, which the instance never
// answers. The call ends as cancelled, and the session goes on.
func TestCancelWhileASessionStarts(t *testing.T) {
	t.Parallel()
	s := start(t, calling("look", `{}`)...)
	s.node()
	asked := make(chan struct{}, 8)
	s.starting([]string{"b1"}, func(n int, _ func()) any {
		asked <- struct{}{}
		if n == 1 {
			return nil
		}
		return wire.Placed{}
	})
	id := s.begin()
	harness.Receive(s.System, "the start", asked)
	s.cancel(id)
	runtest.Equal(t, "end", s.AwaitTurn(id, "t1").End, events.EndCancelled)
	if r := s.theResult(id, 0); r.Outcome != events.OutcomeCancelled {
		t.Errorf("result: got %+v, want it cancelled", r)
	}
	s.Model.Rescript(harness.Reply(harness.Call("next", "look", `{}`)), harness.Reply(harness.Text("done")))
	s.RunTurn(id, "t2", harness.Text("again"))
	runtest.Equal(t, "result of the next call", s.CallResult(id, "next"), "noted")
	harness.VerifyHistory(t, s.Bus, id)
}

// TestIdleSessionOfADeadNode kills the node of a session before it says that the session is idle. The instance ends the
// session by itself, and the next call, on another node, starts it again.
func TestIdleSessionOfADeadNode(t *testing.T) {
	t.Parallel()
	for name, program := range map[string]func(*testing.T) func(context.Context) *exec.Cmd{
		"Go":         func(*testing.T) func(context.Context) *exec.Cmd { return own },
		"TypeScript": inTypeScript,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			on := oneServer(t)
			on.program = program(t)
			s := on.start(t, calling("look", `{"text":"milk"}`)...)
			s.config.Idle = 3 * time.Second
			kill := s.node()
			s.placed("end", "i1")
			id := s.begin()
			s.AwaitTurn(id, "t1")
			kill()
			s.first.Stop() // with its timers
			s.logged("idle", 1)
			s.first = nil
			s.node()
			s.alive(1)
			s.Model.Rescript(calling("look", `{"text":"eggs"}`)...)
			s.RunTurn(id, "t2", harness.Text("more"))
			var log []string // without epochs: the SDK of TypeScript starts an ended session with the same one
			for _, line := range s.lines("started", "began") {
				log = append(log, strings.Fields(line)[0])
			}
			runtest.DeepEqual(t, "log", log, []string{"started", "began", "started", "began"})
		})
	}
}
