package external

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/builtin/code"
)

// inner are the places of a call that has no event tool.called: the program that makes it, and what the program prints
// after the node has died.
var inner = map[string]struct{ program, orphaned string }{
	"nested":     {"r = attempt(%s)", projector.LostText},
	"background": {"r = attempt(wait, start(%s))", "abandoned: worker "},
}

// coded has nodes with code, and a turn whose program makes a call in a place.
func (s *setting) coded(place, call string) {
	s.T.Helper()
	s.own = []plugin.Factory{code.Factory(code.Config{})}
	s.Model.Rescript(harness.Program(fmt.Sprintf(inner[place].program, call)+"\nprint(r.ok, r.value, r.error)"), harness.Reply(harness.Text("done")))
}

// TestInnerCallRunsOnce makes a call that must not run twice inside code, and in the background of code. The instance
// dies, stops, or the node dies.
func TestInnerCallRunsOnce(t *testing.T) {
	t.Parallel()
	for place, at := range inner {
		for _, scope := range []wire.Scope{"", wire.ScopeSession} {
			for fault, want := range map[string]string{
				"none": "True noted: milk", "instance_killed": "False None " + projector.LostText,
				"instance_stopped": "False None " + projector.LostText, "node_killed": "False None " + at.orphaned,
			} {
				t.Run(fmt.Sprintf("%s_%s_of_scope_%q", place, fault, scope), func(t *testing.T) {
					t.Parallel()
					s := start(t)
					s.env = []string{scopeVariable + "=" + string(scope)}
					s.coded(place, `write, text="milk", hold=True`)
					kill := s.node()
					programs := map[string]*process{"i1": s.program("i1"), "i2": s.program("i2")}
					id := s.Open(harness.CodeSession())
					s.StartTurn(id, "t1", harness.Text("go"))
					words := strings.Fields(last(s.logged("began", 1), "began"))
					switch fault {
					case "none":
						s.release()
					case "instance_killed":
						programs[words[2]].kill()
					case "instance_stopped":
						programs[words[2]].signal(syscall.SIGSTOP)
					case "node_killed":
						s.node()
						kill()
					}
					s.AwaitTurn(id, "t1")
					if got := s.Outputs(id)[0]; !strings.HasPrefix(got, want) {
						t.Errorf("output: got %q, want %q", got, want)
					}
					runtest.DeepEqual(t, "runs", s.began(), 1)
					harness.VerifyHistory(t, s.Bus, id)
				})
			}
		}
	}
}

// last is the last of the lines that begin with a word.
func last(lines []string, word string) (found string) {
	for _, line := range lines {
		if strings.HasPrefix(line, word+" ") {
			found = line
		}
	}
	return found
}

// TestInnerCallIsSentAgain has an instance that misses the first message of a call inside code, and one in the
// background. The same instance gets the call again, which says so, and is told when its outcome is recorded.
func TestInnerCallIsSentAgain(t *testing.T) {
	t.Parallel()
	for place := range inner {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			s.coded(place, "hostile")
			s.node()
			var calls, recorded atomic.Int64
			again := make(chan bool, 8)
			s.fake(events.EffectsNonIdempotent, func(verb string, in *wire.Call, send func(any)) {
				switch {
				case verb == "recorded":
					recorded.Add(1)
				case verb == "call" && calls.Add(1) > 1:
					again <- in.Again
					send(&wire.Progress{Outcome: &wire.Outcome{Text: "here"}})
				case verb == "call":
					again <- in.Again
				}
			})
			id := s.Open(harness.CodeSession())
			s.StartTurn(id, "t1", harness.Text("go"))
			s.AwaitTurn(id, "t1")
			if got := s.Outputs(id)[0]; !strings.HasPrefix(got, "True here") {
				t.Errorf("output: got %q, want that of the instance", got)
			}
			runtest.DeepEqual(t, "again", []bool{<-again, <-again}, []bool{false, true})
			s.AwaitPolling("the instance is told", func() bool { return recorded.Load() == 1 })
		})
	}
}

// TestInnerCallMovesTheSession has an instance of scope session end while code runs. A call in the background cannot move
// the session. The next call inside the code moves it: the history has the placement.
func TestInnerCallMovesTheSession(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.env = []string{scopeVariable + "=session"}
	s.coded("nested", "")
	s.Model.Rescript(harness.Program("a = attempt(act, do=\"die\")\nc = attempt(wait, start(write, text=\"late\"))\nb = attempt(write, text=\"second\")\nprint(a.ok, b.value, c.error)"), harness.Reply(harness.Text("done")))
	s.node()
	s.program("i1")
	s.program("i2")
	id := s.Open(harness.CodeSession())
	s.StartTurn(id, "t1", harness.Text("go"))
	s.AwaitTurn(id, "t1")
	if got := s.Outputs(id)[0]; !strings.HasPrefix(got, "False noted: second no instance of plugin notes runs") {
		t.Errorf("output: got %q, want the second call's result", got)
	}
	lines := s.logged("started", 2)
	runtest.DeepEqual(t, "runs", s.began(), 2)
	var recorded string
	for _, p := range s.StateOf(id).Plugins {
		if p.Plugin == "notes" {
			recorded = string(p.State)
		}
	}
	if words := strings.Fields(last(lines, "started")); words[1] != "2" || !strings.Contains(recorded, `"instance":"`+words[2]+"-") || !strings.Contains(recorded, `"epoch":2}`) {
		t.Errorf("placement: the history has %s, the instance that was started last %v", recorded, words)
	}
}
