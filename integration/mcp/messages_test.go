package mcp

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

// TestHostileMessages has a server send messages that the protocol does not have during a call, and then the result. Each call has its
// result, and the server runs on. Several of these messages end a process that uses the client of the SDK without a check.
func TestHostileMessages(t *testing.T) {
	t.Parallel()
	s := start(t)
	server := s.raw(rawTools)
	s.source(server)
	pid := s.pidOf(server)
	message := func(rest string) string { return `{"jsonrpc":"2.0",` + rest + `}` }
	asks := func(params string) string {
		return message(`"id":"q$N","method":"elicitation/create","params":` + params)
	}
	form := func(property string) string {
		return asks(`{"message":"x","requestedSchema":{"type":"object","properties":{"a":` + property + `}}}`)
	}
	for name, line := range map[string]string{
		"question_without_params": message(`"id":"q$N","method":"elicitation/create"`),
		"question_null":           asks(`null`),
		"question_list":           asks(`[]`),
		"question_empty":          asks(`{}`),
		"question_large":          asks(`{"message":"` + strings.Repeat("x", 100<<10) + `"}`),
		"question_mode":           asks(`{"message":"x","mode":"none","url":"http://x"}`),
		"question_without_url":    asks(`{"message":"x","mode":"url"}`),
		"form_null_choice":        form(`{"type":"string","oneOf":[null]}`),
		"form_null_items":         form(`{"type":"array","items":{"anyOf":[null]}}`),
		"form_recursive":          form(`{"$ref":"#/properties/a"}`),
		"form_list":               asks(`{"message":"x","requestedSchema":[null]}`),
		"complete_without_params": message(`"method":"notifications/elicitation/complete"`),
		"complete_null":           message(`"method":"notifications/elicitation/complete","params":null`),
		"progress_null":           message(`"method":"notifications/progress","params":null`),
		"progress_unknown":        message(`"method":"notifications/progress","params":{"progressToken":{"a":1},"progress":1e308}`),
		"cancelled_object":        message(`"method":"notifications/cancelled","params":{"requestId":{}}`),
		"cancelled_call":          message(`"method":"notifications/cancelled","params":{"requestId":$ID}`),
		"updated_null":            message(`"method":"notifications/resources/updated","params":null`),
		"log_null":                message(`"method":"notifications/message","params":null`),
		"sampling":                message(`"id":"s$N","method":"sampling/createMessage","params":{"messages":[null],"maxTokens":1}`),
		"roots":                   message(`"id":"r$N","method":"roots/list"`),
		"unknown":                 message(`"id":"u$N","method":"x\u0000\u001b[2J"`),
		"same_id":                 message(`"id":"p","method":"ping"`) + "\n" + message(`"id":"p","method":"ping"`),
		"result_of_another":       message(`"id":987654,"result":{}`),
		"error_of_another":        message(`"id":"x","error":{"code":1,"message":"x"}`),
	} {
		t.Run(name, func(t *testing.T) {
			runtest.Equal(t, "result", s.result("srv__once", sayingOf(saying{Lines: []string{line}, Times: 3})).Text, "said")
		})
	}
	t.Run("two_results", func(t *testing.T) {
		first := message(`"id":$ID,"result":{"content":[{"type":"text","text":"first"}]}`)
		runtest.Equal(t, "result", s.result("srv__once", sayingOf(saying{Lines: []string{first}})).Text, "first")
	})
	runtest.Equal(t, "process of the server", s.pidOf(server), pid)
}

// TestUnreadableResults has a server answer calls with results that the protocol does not have. Each call fails, as it has run, and
// neither the server nor another call of it ends.
func TestUnreadableResults(t *testing.T) {
	t.Parallel()
	s := start(t)
	server := s.raw(rawTools)
	s.source(server)
	pid := s.pidOf(server)
	other := s.begin("srv__once", sayingOf(saying{Silent: true}))
	s.AwaitPolling("the other call", func() bool { return len(s.logged()) == 1 })
	for name, rest := range map[string]string{
		"null_question": `"result":{"inputRequests":{"a":null}}`,
		"form":          `"result":{"inputRequests":{"a":{"method":"elicitation/create","params":{"message":"x","requestedSchema":{"type":"object","properties":{"b":{"type":"string","oneOf":[null]}}}}}}}`,
		"sampling":      `"result":{"inputRequests":{"a":{"method":"sampling/createMessage","params":{"messages":[null],"maxTokens":1}}}}`,
		"roots":         `"result":{"inputRequests":{"a":{"method":"roots/list","params":{}}}}`,
		"closing":       `"error":{"code":-32004,"message":"not now"}`,
		"empty_error":   `"error":{}`,
	} {
		t.Run(name, func(t *testing.T) {
			r := s.result("srv__once", sayingOf(saying{Lines: []string{`{"jsonrpc":"2.0","id":$ID,` + rest + `}`}, Silent: true}))
			if r.Outcome != events.OutcomeFailure {
				t.Errorf("got %q and %.300q, want a failure", r.Outcome, r.Text)
			}
		})
	}
	bare := s.result("srv__once", sayingOf(saying{Lines: []string{`{"jsonrpc":"2.0","id":$ID,"result":"a text alone"}`}, Silent: true}))
	runtest.Equal(t, "a text in place of a result", bare.Text, "a text alone")
	runtest.Equal(t, "process of the server", s.pidOf(server), pid)
	_, _, err := s.Cancel(s.Ctx, other, "t1", api.CancelRequest{})
	runtest.WantError(t, "cancel", err, nil)
	s.AwaitTurn(other, "t1")
	runtest.Equal(t, "the other call", s.resultOf(other).Outcome, events.OutcomeCancelled)
}

// TestBrokenServers has a server send what is no message of the protocol, in place of a result. The call is lost, the server is started
// again, and the next call has its result.
func TestBrokenServers(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"version": `{"jsonrpc":"1.0","id":$ID,"result":{}}`,
		"no_id":   `{"jsonrpc":"2.0","id":null,"result":{}}`,
		"cut":     `{"jsonrpc":"2.0","id":$ID,"result":{"content":[`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			server := s.raw(rawTools)
			s.source(server)
			pid := s.pidOf(server)
			runtest.Equal(t, "outcome", s.result("srv__once", sayingOf(saying{Lines: []string{line}, Silent: true})).Outcome, events.OutcomeLost)
			runtest.Equal(t, "runs", len(s.logged()), 1)
			runtest.Equal(t, "the next call", s.result("srv__once", sayingOf(saying{})).Text, "said")
			if s.alive(pid) {
				t.Error("the server runs on")
			}
		})
	}
}

// TestFloods has a server send progress, changes of its list, pings, questions and lines of its standard error without end during a call.
// Calls of another server go on, few questions reach people, and neither the log nor the process grows with the flood. This test measures
// the process, so it is alone. Each flood has a server of its own, since that of a cancelled call may not ask people in another session.
func TestFloods(t *testing.T) { //nolint:paralleltest // see above
	for name, line := range map[string]string{
		"progress":  `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"x","progress":$N,"message":"` + strings.Repeat("m", 1000) + `"}}`,
		"changes":   `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
		"pings":     `{"jsonrpc":"2.0","id":"p$N","method":"ping"}`,
		"invalid":   `{"jsonrpc":"2.0","id":"i$N","method":"elicitation/create"}`,
		"questions": `{"jsonrpc":"2.0","id":"q$N","method":"elicitation/create","params":{"message":"Which one of $N?"}}`,
	} {
		t.Run(name, func(t *testing.T) { flood(t, line, name == "questions") }) //nolint:paralleltest // see above
	}
}

// flood has a server send a line without end during a call. asks: the line asks people.
func flood(t *testing.T, line string, asks bool) {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	s := start(t)
	server, good := s.raw(rawTools), s.own("good")
	s.log = zap.New(core)
	s.source(server, good)
	s.Wait("tools of good", s.of("good").Ready())
	before, warned := runtime.NumGoroutine(), logs.Len()
	id := s.begin("srv__once", sayingOf(saying{Lines: []string{line}, Times: 6000, Silent: true, Errors: "noise " + strings.Repeat("e", 100)}))
	s.AwaitPolling("the flood", func() bool { return slices.Contains(s.logged(), "said") })
	runtest.Equal(t, "call of another server", s.result("good__look", `{"do":"x"}`).Text, "did x")
	if more := runtime.NumGoroutine() - before; more > 300 {
		t.Errorf("got %d goroutines more, want few", more)
	}
	if more := logs.Len() - warned; more > 400 { // 200 lines of standard error at once, and 20 a second
		t.Errorf("got %d lines of the log, want few", more)
	}
	asked := func() int {
		list, err := s.Approvals(s.Ctx, id)
		runtest.WantError(t, "approvals", err, nil)
		return len(list)
	}
	if asks {
		s.AwaitPolling("a question", func() bool { return asked() > 0 })
	}
	if n := asked(); n > 4 {
		t.Errorf("got %d questions, want at most 4", n)
	}
	_, _, err := s.Cancel(s.Ctx, id, "t1", api.CancelRequest{})
	runtest.WantError(t, "cancel", err, nil)
	s.AwaitTurn(id, "t1")
}
