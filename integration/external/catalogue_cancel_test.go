package external

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

var cancelCases = []serviceCase{
	{"T37_cancel_kills_the_processes_of_a_command", cancelCommand},
	// Without an instance a call fails at once, so none is queued that a cancel could end.
	{"T38_call_without_instance_is_not_kept", noInstance},
	{"T39_cancel_of_an_ended_call", cancelEnded},
	{"T40_tool_that_ignores_the_cancel", ignoredCancel},
	{"T41_cancel_races_with_the_result", cancelRace},
	{"T42_cancel_of_a_turn_with_three_calls", cancelThree},
	{"T43_call_without_instance_fails_at_once", noInstance},
	// The cancel is in the history, which the node reads before it sends a call.
	{"T44_cancel_before_the_node_starts", cancelBefore},
	{"T40a_time_limit_of_a_tool", timeLimit},
}

func (s *setting) cancel(id events.SessionID) {
	s.T.Helper()
	_, _, err := s.Cancel(s.Ctx, id, "t1", api.CancelRequest{})
	runtest.WantError(s.T, "cancel", err, nil)
}

// theResult is the only result of the call with an index.
func (s *setting) theResult(id events.SessionID, call int64) (r events.ToolResult) {
	s.T.Helper()
	n := 0
	for _, p := range harness.Find[*events.ToolReturned](s.System, id) {
		for i := range p.Results {
			if p.Results[i].Call == call {
				r, n = p.Results[i], n+1
			}
		}
	}
	runtest.DeepEqual(s.T, fmt.Sprintf("results of call %d", call), n, 1)
	return r
}

func cancelCommand(t *testing.T, on place) {
	s := on.start(t, calling("run_command", `{"command":"echo partial; sleep 90.0731"}`)...)
	s.config.CancelGrace = time.Minute // less than the command takes
	s.node()
	s.program("i1")
	id := s.begin()
	s.AwaitPolling("the command", func() bool { return sleeping() })
	s.cancel(id)
	runtest.DeepEqual(t, "end", s.AwaitTurn(id, "t1").End, events.EndCancelled)
	if r := s.theResult(id, 0); r.Outcome != events.OutcomeCancelled || !strings.HasPrefix(r.Text, "partial\n") {
		t.Errorf("result: got %+v, want it cancelled, with what the command printed", r)
	}
	if sleeping() {
		t.Error("the command goes on")
	}
}

func noInstance(t *testing.T, on place) {
	s := on.start(t, append(calling("write", `{"text":"milk"}`), calling("write", `{"text":"eggs"}`)...)...)
	s.node()
	s.program("i1").kill()
	s.alive(0)
	s.live = 0
	id := s.begin()
	s.AwaitTurn(id, "t1")
	s.wantResult(id, "no instance of plugin notes runs")
	s.program("i2")
	s.RunTurn(id, "t2", harness.Text("more")) // its call follows one that was kept
	runtest.DeepEqual(t, "runs", s.lines("began"), []string{"began t2/0/0 i2"})
}

func cancelEnded(t *testing.T, on place) {
	s, id := play(t, on, "write", `{"text":"milk"}`, "i1")
	before := s.LastSeq(id)
	s.cancel(id)
	runtest.DeepEqual(t, "last commit", s.LastSeq(id), before)
	s.wantResult(id, "noted: milk")
}

func ignoredCancel(t *testing.T, on place) {
	s := on.start(t, calling("act", `{"do":"stubborn","hold":true}`)...)
	s.config.CancelGrace = 400 * time.Millisecond
	s.node()
	s.program("i1")
	id := s.begin()
	s.logged("began", 1)
	s.cancel(id)
	runtest.DeepEqual(t, "end", s.AwaitTurn(id, "t1").End, events.EndCancelled)
	if r := s.theResult(id, 0); r.Outcome != events.OutcomeCancelled || !strings.Contains(r.Text, "did not stop within 400ms") {
		t.Errorf("result: got %+v, want it cancelled by force", r)
	}
	last := s.LastSeq(id)
	s.release()
	s.logged("ended", 1) // its outcome has no reader
	s.Model.Rescript(calling("look", `{"text":"milk"}`)...)
	s.AwaitTurn(s.begin(), "t1") // the instance sends its outcomes in order
	runtest.DeepEqual(t, "last commit", s.LastSeq(id), last)
}

func cancelRace(t *testing.T, on place) {
	rounds, both := on.fewer(runtest.Of(24, 500)), make(map[events.Outcome]int)
	s := on.start(t)
	s.node()
	s.program("i1")
	for n := range rounds {
		args := []string{`{"do":"partial","hold":true}`, `{"do":"partial"}`, `{"do":"partial","millis":20}`}[n%3]
		s.Model.Rescript(calling("act", args)...)
		id := s.begin()
		s.logged("began", n+1)
		switch n % 6 {
		case 1:
			s.AwaitState(id, "the result", func(*projector.State) bool { return len(harness.Find[*events.ToolReturned](s.System, id)) > 0 })
		case 3: // the tool returns about when it is told of the cancel
			s.release()
		}
		s.cancel(id)
		s.AwaitTurn(id, "t1")
		if n%6 == 3 {
			s.hold()
		}
		both[s.theResult(id, 0).Outcome]++
	}
	if len(both) != 2 || both[events.OutcomeSuccess] == 0 || both[events.OutcomeCancelled] == 0 {
		t.Errorf("outcomes: got %v, want some of success and some of cancelled", both)
	}
}

func cancelThree(t *testing.T, on place) {
	s := on.start(t, harness.Reply(
		harness.Call("a", "act", `{"do":"partial","millis":60000}`), harness.Call("b", "run_command", `{"command":"true"}`), harness.Call("c", "run_command", `{"command":"true"}`),
	))
	s.node()
	s.program("i1")
	id := s.begin()
	s.logged("began", 1)
	s.cancel(id)
	runtest.DeepEqual(t, "end", s.AwaitTurn(id, "t1").End, events.EndCancelled)
	for call, want := range []string{"half", "cancelled", "cancelled"} {
		if r := s.theResult(id, int64(call)); r.Outcome != events.OutcomeCancelled || !strings.Contains(r.Text, want) {
			t.Errorf("result %d: got %+v, want it cancelled with %q", call, r, want)
		}
	}
	runtest.DeepEqual(t, "runs", s.began(), 1)
}

func cancelBefore(t *testing.T, on place) {
	s := on.start(t, calling("write", `{"text":"milk"}`)...)
	id := s.begin()
	s.cancel(id)
	s.node()
	s.program("i1")
	runtest.DeepEqual(t, "end", s.AwaitTurn(id, "t1").End, events.EndCancelled)
	runtest.DeepEqual(t, "runs", s.began(), 0)
}

func timeLimit(t *testing.T, on place) {
	s, id := play(t, on, "brief", `{"do":"partial","millis":60000}`, "i1")
	if r := s.theResult(id, 0); r.Outcome != events.OutcomeFailure || r.Class != "timeout" || !strings.Contains(r.Text, "half") {
		t.Errorf("result: got %+v, want a timeout with what the tool returned", r)
	}
}
