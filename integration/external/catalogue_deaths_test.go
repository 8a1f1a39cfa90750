package external

import (
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
)

// instanceDies kills or stops the instance while the tool runs.
func instanceDies(tool string, signal syscall.Signal, want string, runs int) func(*testing.T, place) {
	return func(t *testing.T, on place) {
		s := on.start(t, calling(tool, `{"text":"milk","hold":true}`)...)
		s.node()
		programs := map[string]*process{"i1": s.program("i1"), "i2": s.program("i2")}
		id := s.begin()
		holder := strings.Fields(s.logged("began", 1)[0])[2]
		programs[holder].signal(signal)
		if s.logged("began", runs); runs > 1 {
			s.release()
		}
		s.AwaitTurn(id, "t1")
		s.wantResult(id, want)
		runtest.DeepEqual(t, "runs", s.began(), runs)
		s.release()
		if signal == syscall.SIGSTOP { // what it sends now has no reader
			programs[holder].signal(syscall.SIGCONT)
			s.logged("ended", runs)
			s.wantResult(id, want)
			runtest.DeepEqual(t, "results", len(harness.Find[*events.ToolReturned](s.System, id)), 1)
		}
	}
}

// startsAgain kills a program in a call that must not run twice, and starts it again with its name before nodes miss it.
func startsAgain(t *testing.T, on place) {
	s := on.start(t, calling("write", `{"text":"milk","millis":60000}`)...)
	s.node()
	p := s.program("i1")
	id := s.begin()
	s.logged("began", 1)
	before := s.idOf("i1")
	p.kill()
	s.spawn("i1", s.command())
	s.AwaitTurn(id, "t1")
	s.wantResult(id, "[lost]")
	runtest.DeepEqual(t, "runs", s.began(), 1)
	s.alive(1)
	if after := s.idOf("i1"); after == before {
		t.Errorf("id of the second start: got that of the first, %s", after)
	}
}

// nodeDies stops the node while the tool runs: the next node joins the call.
func nodeDies(tool string) func(*testing.T, place) {
	return func(t *testing.T, on place) {
		s := on.start(t, calling(tool, `{"text":"milk","hold":true}`)...)
		calls := s.sentCalls()
		kill := s.node()
		s.program("i1")
		id := s.begin()
		s.logged("began", 1)
		s.node()
		kill()
		for range 2 { // of both nodes
			s.sent(calls)
		}
		s.release()
		s.AwaitTurn(id, "t1")
		s.wantResult(id, "noted: milk")
		runtest.DeepEqual(t, "runs", s.began(), 1)
		runtest.DeepEqual(t, "results", len(harness.Find[*events.ToolReturned](s.System, id)), 1)
	}
}
