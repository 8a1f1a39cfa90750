package external

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external"
)

var callCases = []serviceCase{
	// The history has tool.called with the instance, and one result. Nothing durable belongs to the plugin.
	{"T11_one_call_one_result", oneCall},
	{"T12_output_in_order_before_the_result", linesInOrder},
	{"T13_failure_of_a_tool_is_its_result", failureIsResult},
	{"T14_unknown_tool_is_not_sent", notSent("nothing", `{}`, "is not available in this session")},
	{"T15_arguments_against_the_schema_are_not_sent", notSent("write", `{"text":7}`, "text")},
	// The instances share the calls by rendezvous hashing, without a limit of each: all are used, each call runs once.
	{"T16_three_instances_share_thirty_calls", shareCalls},
	{"T17_two_sessions_at_once", twoSessions},
	{"T18_large_results_are_whole", largeResults},
	// The actions after the result are the control and the events, in the commit of the result.
	{"T19_control_and_events_are_in_the_commit_of_the_result", controlAndEvents},
	// A call's id is its place in the history: the turn, the iteration and the index.
	{"T20_ids_of_calls_are_distinct", distinctIDs},
	// The lease of a call is its signs of life.
	{"T21_a_long_call_is_not_sent_elsewhere", longCall},
	{"T22_killed_instance_of_a_call_that_runs_once", instanceDies("write", syscall.SIGKILL, "[lost]", 1)},
	{"T23_killed_instance_of_a_call_that_may_repeat", instanceDies("look", syscall.SIGKILL, "noted: milk", 2)},
	{"T24_stopped_instance_returns_late", instanceDies("look", syscall.SIGSTOP, "noted: milk", 2)},
	// An instance without an outcome that says so stands for the early acknowledgement.
	{"T25_instance_without_the_outcome_ends_the_call_as_lost", forgottenOutcome},
	{"T26_stopped_instance_of_a_call_that_runs_once", instanceDies("write", syscall.SIGSTOP, "[lost]", 1)},
	// The claim is the event tool.called: the node that appends it names the instance.
	{"T26a_killed_instance_starts_again_with_its_name", startsAgain},
	{"T27_the_history_names_one_instance", oneHolder},
	{"T28_outcome_that_was_lost_is_sent_again", outcomeAgain},
	{"T29_recorded_call_does_not_run_again", recordedIsDropped},
	{"T30_repeated_call_joins_the_first", repeatJoins},
	{"T31_node_dies_while_the_tool_runs", nodeDies("write")},
	{"T32_node_dies_while_a_repeatable_tool_runs", nodeDies("look")},
	// Each hop of a repeatable call is a delivery: after three the call fails, and the turn goes on.
	{"T33_call_that_kills_every_instance", poison},
	{"T59_output_of_a_fast_tool_is_paced", pacedOutput},
	{"T60_garbage_of_an_instance_fails_its_call_alone", garbage},
	{"T60a_first_answer_is_the_result", firstAnswer},
	{"T18a_outcomes_against_the_limits_fail_with_a_reason", hostileOutcomes},
	{"T18b_pictures_are_attachments", pictures},
	{"T18c_stored_body_is_an_attachment", storesBody},
	{"T18d_killed_instance_that_stored_a_body", storesBodyAgain},
	{"T18e_body_of_another_session", foreignBody},
	{"T18f_stored_body_that_is_not_allowed", bodyNotAllowed},
	{"T15a_large_arguments_are_not_sent", largeArguments},
	{"T35_child_of_a_callback_is_created_once", childOnce},
	{"T35a_callbacks_of_tasks_usage_overlays_and_snapshots", wholeCallbacks},
	{"T35b_trace_event_with_a_context", tracesOfCalls},
	{"T35c_trace_event_that_is_not_allowed", deniedTrace},
	// An instance that lost the call has no reader for its callback.
	{"T36_callback_of_an_instance_that_lost_the_call", callbackWithoutCall},
	{"T61_operation_that_is_not_allowed", deniedOperation},
}

// play starts a node and instances, and runs the turn t1 of a new session with one call.
func play(t *testing.T, on place, tool, args string, instances ...string) (*setting, events.SessionID) {
	t.Helper()
	s := on.start(t, calling(tool, args)...)
	s.node()
	for _, id := range instances {
		s.program(id)
	}
	id := s.begin()
	s.AwaitTurn(id, "t1")
	return s, id
}

func (s *setting) wantResult(id events.SessionID, want string) {
	s.T.Helper()
	if got := s.CallResult(id, "k"); !strings.Contains(got, want) {
		s.T.Errorf("result: got %.300q, want %q", got, want)
	}
}

func oneCall(t *testing.T, on place) {
	s, id := play(t, on, "write", `{"text":"milk"}`, "i1")
	s.wantResult(id, "noted: milk")
	runtest.DeepEqual(t, "instances that have the call", s.holders(id), []string{"i1"})
	runtest.DeepEqual(t, "results", len(harness.Find[*events.ToolReturned](s.System, id)), 1)
	runtest.DeepEqual(t, "runs", s.began(), 1)
}

// outputs collects the output of the turn until its end.
func (s *setting) outputs(id events.SessionID) (list []api.SessionEvent) {
	s.T.Helper()
	events, err := s.WatchTurn(s.Ctx, id, "t1")
	runtest.WantError(s.T, "watch", err, nil)
	for e, err := range events {
		runtest.WantError(s.T, "watch", err, nil)
		if e.Type == api.EventToolOutput || e.Type == api.EventToolCall {
			list = append(list, e)
		}
	}
	return list
}

func linesInOrder(t *testing.T, on place) {
	s := on.start(t, calling("act", `{"do":"lines","n":5,"millis":120}`)...)
	s.node()
	s.program("i1")
	list := s.outputs(s.begin())
	text := ""
	for i, e := range list[:len(list)-1] {
		if e.Type != api.EventToolOutput || e.N != int64(i+1) || e.Offset != int64(len(text)) || e.Call != "t1/0/0" || e.Stream != "stdout" {
			t.Errorf("output %d: got %+v, want the next one", i, e)
		}
		text += e.Text
	}
	runtest.DeepEqual(t, "output", text, "line 1\nline 2\nline 3\nline 4\nline 5\n")
	last := list[len(list)-1]
	runtest.DeepEqual(t, "last", []string{string(last.Type), last.Output}, []string{"tool_call", "printed"})
}

func failureIsResult(t *testing.T, on place) {
	s, id := play(t, on, "look", `{"text":"","fail":"error"}`, "i1")
	s.wantResult(id, "[failed] the shop is closed")
	runtest.DeepEqual(t, "runs", s.began(), 1)
}

// notSent is a call that fails without an instance.
func notSent(tool, args, want string) func(*testing.T, place) {
	return func(t *testing.T, on place) {
		s, id := play(t, on, tool, args, "i1")
		s.wantResult(id, want)
		runtest.DeepEqual(t, "runs", s.began(), 0)
	}
}

func largeArguments(t *testing.T, on place) {
	s, id := play(t, on, "write", fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", wire.MaxArgsBytes)), "i1")
	s.wantResult(id, fmt.Sprintf("limit is %d", wire.MaxArgsBytes))
	runtest.DeepEqual(t, "class", harness.Find[*events.ToolReturned](s.System, id)[0].Results[0].Class, plugin.ClassResourceLimit)
	runtest.DeepEqual(t, "runs", s.began(), 0)
}

func shareCalls(t *testing.T, on place) {
	var parts []events.Part
	for n := range 30 {
		parts = append(parts, harness.Call(events.CallID(fmt.Sprint("k", n)), "write", `{"text":"milk"}`))
	}
	s := on.start(t, harness.Reply(parts...), harness.Reply(harness.Text("done")))
	s.node()
	for _, id := range []string{"i1", "i2", "i3"} {
		s.program(id)
	}
	s.AwaitTurn(s.begin(), "t1")
	calls, instances := make(map[string]int), make(map[string]bool)
	for _, line := range s.logged("ended", 30) {
		if words := strings.Fields(line); words[0] == "began" {
			calls[words[1]]++
			instances[words[2]] = true
		}
	}
	runtest.DeepEqual(t, "calls", len(calls), 30)
	for call, n := range calls {
		runtest.DeepEqual(t, "runs of "+call, n, 1)
	}
	runtest.DeepEqual(t, "instances", slices.Sorted(maps.Keys(instances)), []string{"i1", "i2", "i3"})
}

func twoSessions(t *testing.T, on place) {
	script := append(calling("write", `{"text":"milk","hold":true}`)[:1:1], calling("write", `{"text":"milk","hold":true}`)...)
	s := on.start(t, append(script, harness.Reply(harness.Text("done")))...)
	s.node()
	s.program("i1")
	a, b := s.begin(), s.begin()
	s.logged("began", 2)
	s.release()
	for _, id := range []events.SessionID{a, b} {
		s.AwaitTurn(id, "t1")
		s.wantResult(id, "noted: milk")
	}
	lines := s.logged("ended", 2)
	if !strings.HasPrefix(lines[1], "began") {
		t.Errorf("runs: got %v, want both at once", lines)
	}
}

func largeResults(t *testing.T, on place) {
	for _, size := range []int{70_000, 3 << 20} {
		s := on.start(t, calling("act", fmt.Sprintf(`{"do":"large","n":%d}`, size))...)
		kill := s.node()
		p := s.program("i1")
		id := s.begin()
		s.AwaitTurn(id, "t1")
		got, err := s.ToolOutput(s.Ctx, id, "t1/0/0")
		runtest.WantError(t, "output", err, nil)
		if sha256.Sum256([]byte(got)) != sha256.Sum256([]byte(largeText(size))) {
			t.Errorf("result of %d bytes: got another one, of %d bytes: %.200s", size, len(got), got)
		}
		kill() // it has a model of its own, and would take turns of the next one
		p.kill()
	}
}

func pictures(t *testing.T, on place) {
	s, id := play(t, on, "act", `{"do":"picture","n":900000}`, "i1")
	for _, m := range s.ReadView(id).Messages {
		for _, p := range m.Parts {
			if p.Kind == events.PartAttachment {
				want := base64.StdEncoding.EncodeToString([]byte(largeText(900000)))
				digest := fmt.Sprintf("%x", sha256.Sum256([]byte(want)))
				if p.MediaType != "image/png" || p.Blob.Digest != digest {
					t.Errorf("picture: got %s with digest %s, want image/png with %s", p.MediaType, p.Blob.Digest, digest)
				}
				return
			}
		}
	}
	t.Error("picture: got none")
}

func controlAndEvents(t *testing.T, on place) {
	s := on.start(t, harness.Reply(harness.Call("k", "act", `{"do":"finish"}`)))
	s.node()
	s.program("i1")
	id := s.begin()
	runtest.DeepEqual(t, "end", s.AwaitTurn(id, "t1").End, events.EndToolValue)
	for entry, err := range s.Bus.Log().Read(s.Ctx, id, 1) {
		runtest.WantError(t, "read", err, nil)
		var shown []string
		returned := false
		for i := range entry.Commit.Events {
			switch p := entry.Commit.Events[i].Payload.(type) {
			case *events.HookRan:
				for j := range p.Decisions {
					shown = append(shown, string(p.Decisions[j].Body))
				}
			case *events.ToolReturned:
				returned = true
			}
		}
		if returned {
			runtest.DeepEqual(t, "events in the commit of the result", shown, []string{`[{"n":1},{"n":2}]`})
			return
		}
	}
	t.Error("result: got none")
}

func distinctIDs(t *testing.T, on place) {
	const calls = 50
	var parts []events.Part
	for range calls {
		parts = append(parts, harness.Call("same", "look", `{"text":"x"}`))
	}
	s := on.start(t, harness.Reply(parts...), harness.Reply(harness.Text("done")))
	s.node()
	s.program("i1")
	s.AwaitTurn(s.begin(), "t1")
	ids := make(map[string]bool)
	for _, line := range s.logged("ended", calls) {
		ids[strings.Fields(line)[1]] = true
	}
	runtest.DeepEqual(t, "ids", len(ids), calls)
}

func longCall(t *testing.T, on place) {
	millis := (2 * wire.Lease).Milliseconds()
	s, id := play(t, on, "look", fmt.Sprintf(`{"text":"milk","millis":%d}`, millis), "i1", "i2")
	s.wantResult(id, "noted: milk")
	runtest.DeepEqual(t, "runs", s.began(), 1)
}

func oneHolder(t *testing.T, on place) {
	s := on.start(t, calling("write", `{"text":"milk"}`)...)
	for range 3 {
		s.node()
	}
	for _, id := range []string{"i1", "i2"} {
		s.program(id)
	}
	id := s.begin()
	s.AwaitTurn(id, "t1")
	runtest.DeepEqual(t, "number of holders", len(s.holders(id)), 1)
	runtest.DeepEqual(t, "runs", s.began(), 1)
}

func poison(t *testing.T, on place) {
	s, id := play(t, on, "ask", `{"do":"die"}`, "i1", "i2", "i3", "i4")
	s.wantResult(id, "instances of plugin notes that ended during the call: 3")
	runtest.DeepEqual(t, "runs", s.began(), 3)
	runtest.DeepEqual(t, "end", s.AwaitTurn(id, "t1").End, events.EndFinished)
}

func pacedOutput(t *testing.T, on place) {
	s := on.start(t, calling("act", `{"do":"lines","n":10000}`)...)
	s.node()
	s.program("i1")
	began := time.Now()
	list := s.outputs(s.begin())
	most := int(time.Since(began)/time.Second+1)*wire.OutputsPerSecond + 8 // the rest comes at the end of the call
	if n := len(list) - 1; n == 0 || n > most {
		t.Errorf("output: got %d pieces, want 1 to %d", n, most)
	}
	whole := ""
	for n := range 10000 {
		whole += fmt.Sprintf("line %d\n", n+1)
	}
	for _, e := range list[:len(list)-1] {
		if len(e.Text) > wire.MaxOutputBytes || int(e.Offset)+len(e.Text) > len(whole) || whole[e.Offset:int(e.Offset)+len(e.Text)] != e.Text {
			t.Fatalf("output at %d: got %.80q, want the text that was printed there", e.Offset, e.Text)
		}
	}
	runtest.DeepEqual(t, "result", list[len(list)-1].Output, "printed")
}

// allowing lets the plugin use operations.
func (s *setting) allowing(operations ...string) {
	s.config.Plugins = []external.Plugin{{Name: "notes", Callbacks: operations}}
}

func childOnce(t *testing.T, on place) {
	s := on.start(t, calling("ask", `{"do":"child","hold":true}`)...)
	s.allowing("createSession")
	s.node()
	programs := map[string]*process{"i1": s.program("i1"), "i2": s.program("i2")}
	id := s.begin()
	first := strings.Fields(s.logged("asked", 1)[1])[2]
	programs[first].kill()
	s.release()
	s.AwaitTurn(id, "t1")
	s.wantResult(id, "201 ")
	runtest.DeepEqual(t, "runs", s.began(), 2)
	children := make(map[events.SessionID]bool)
	for session, err := range s.Bus.Sessions(s.Ctx) {
		runtest.WantError(t, "sessions", err, nil)
		if s.StateOf(session).Parent == id {
			children[session] = true
		}
	}
	runtest.DeepEqual(t, "children", len(children), 1)
}
