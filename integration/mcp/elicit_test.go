package mcp

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// colours is the form of the answer to the questions of the test servers.
var colours = json.RawMessage(`{"type":"object","properties":{"colour":{"type":"string","enum":["red","blue"]},"size":{"type":"integer","default":3}},"required":["colour"]}`)

// oldServer is a server of an earlier version of the protocol, with the tools ask and look, which send a request of their own and
// return what the client answers.
func oldServer(in io.Reader, out io.Writer) {
	type message struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
		Params struct {
			Arguments struct {
				Silent bool `json:"silent"` // the call is never answered
				// GiveUp ends what the calls before ask: "question" cancels the questions, "call" answers the calls.
				GiveUp string `json:"give_up"`
			} `json:"arguments"`
		} `json:"params"`
	}
	asked := make(map[string]json.RawMessage) // ids of the calls that ask, by that of the question
	questions, cancelled := 0, make(map[string]bool)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var m message
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			return
		}
		answer := func(id, result json.RawMessage) {
			_, _ = fmt.Fprintf(out, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n", id, result)
		}
		switch {
		case m.Method == "initialize":
			answer(m.ID, json.RawMessage(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}`))
		case m.Method == "tools/list":
			answer(m.ID, json.RawMessage(`{"tools":[{"name":"ask","inputSchema":{"type":"object"}},{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`))
		case m.Method == "tools/call" && m.Params.Arguments.Silent:
			logRun(os.Getenv(runsVariable), "silent")
		case m.Method == "tools/call" && m.Params.Arguments.GiveUp != "":
			for id, call := range asked {
				if m.Params.Arguments.GiveUp == "question" {
					cancelled[id] = true
					_, _ = fmt.Fprintf(out, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`+"\n", id)
					continue
				}
				delete(asked, id)
				answer(call, json.RawMessage(`{"content":[{"type":"text","text":"went on"}]}`))
			}
			answer(m.ID, json.RawMessage(`{"content":[{"type":"text","text":"gave up"}]}`))
		case m.Method == "tools/call":
			id := fmt.Sprintf(`"q%d"`, questions)
			questions++
			asked[id] = m.ID
			_, _ = fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"method":"elicitation/create","params":{"message":"Which one?","requestedSchema":%s}}`+"\n", id, colours)
		case m.Method == "" && asked[string(m.ID)] != nil && !cancelled[string(m.ID)]:
			text, _ := json.Marshal(string(m.Result) + string(m.Error))
			answer(asked[string(m.ID)], fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}]}`, text))
		case m.Method != "" && len(m.ID) > 0:
			_, _ = fmt.Fprintf(out, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-32601,\"message\":\"no such method\"}}\n", m.ID)
		}
	}
}

// question waits for the question of a session.
func (s *setting) question(id events.SessionID, text string) projector.Approval {
	s.T.Helper()
	var list []api.PendingApproval
	s.AwaitPolling("the question "+text, func() bool {
		var err error
		list, err = s.Approvals(s.Ctx, id)
		runtest.WantError(s.T, "approvals", err, nil)
		return len(list) > 0 && strings.Contains(list[0].Question, text)
	})
	return list[0].Approval
}

func (s *setting) give(id events.SessionID, q projector.Approval, granted bool, reason string) {
	s.T.Helper()
	runtest.WantError(s.T, "answer", s.Approve(s.Ctx, id, events.ToolApprovalGiven{Effect: q.Effect, Granted: granted, Reason: reason, By: "ann"}), nil)
}

// TestSmokeServerAsks has servers of two versions of the protocol ask people during a call. The question is an approval, which
// has the form of the answer. An answer that does not fit is asked for again.
func TestSmokeServerAsks(t *testing.T) {
	t.Parallel()
	for version, tool := range map[string]string{"current": "srv__once", "repeatable": "srv__look", "earlier": "srv__ask"} {
		for name, c := range map[string]struct {
			granted bool
			reasons []string
			want    string
		}{
			"granted": {true, []string{`{"colour":"red","size":4}`}, `{"action":"accept","content":{"colour":"red","size":4}}`},
			"default": {true, []string{` {"colour":"blue"} `}, `{"action":"accept","content":{"colour":"blue","size":3}}`},
			"again":   {true, []string{"green", `{"colour":"green"}`, `{"colour":"red"}`}, `{"action":"accept","content":{"colour":"red","size":3}}`},
			"never":   {true, []string{"green", `{"colour":"green"}`, `{"size":"?"}`}, `{"action":"cancel"}`},
			"refused": {false, []string{"no"}, `{"action":"decline"}`},
		} {
			t.Run(version+"_"+name, func(t *testing.T) {
				t.Parallel()
				s := start(t)
				server := s.own("srv")
				if version == "earlier" {
					server.Env[oldVariable] = "1"
				}
				s.source(server)
				id := s.begin(tool, `{"do":"ask","text":"Which one?"}`)
				for n, reason := range c.reasons {
					q := s.question(id, map[bool]string{true: "Which one?", false: fmt.Sprintf("The %d. answer does not fit", n)}[n == 0])
					if q.Plugin != "srv" || !sameJSON(q.Args, fmt.Appendf(nil, `{"requestedSchema":%s,"defaults":{"size":3}}`, colours)) {
						t.Errorf("question: got %+v, want that of the server, with its form", q)
					}
					s.give(id, q, c.granted, reason)
				}
				s.AwaitTurn(id, "t1")
				if got := s.resultOf(id).Text; !sameJSON([]byte(got), []byte(c.want)) {
					t.Errorf("result: got %s, want %s", got, c.want)
				}
				harness.VerifyHistory(t, s.Bus, id)
			})
		}
	}
}

// TestServerAsksAcrossNodes kills the node of a call while people think. A call that must not run twice is lost with it; one that may
// repeat runs at the other node's server, which asks the same and has the answer.
func TestServerAsksAcrossNodes(t *testing.T) {
	t.Parallel()
	for tool, want := range map[string]string{"srv__look": `{"action":"accept","content":{"colour":"red","size":3}}`, "srv__ask": ""} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			server := s.own("srv")
			server.Env[oldVariable] = "1"
			s.source(server)
			s.source(server)
			id := s.begin(tool, `{}`)
			q := s.question(id, "Which one?")
			killed, other := 0, 1
			if harness.Find[*events.TurnStarted](s.System, id)[0].Worker == s.nodes[1].ID() {
				killed, other = 1, 0
			}
			s.Host = s.nodes[other].Host()
			s.kills[s.nodes[killed].ID()]()
			s.AwaitPolling("the end of the turn", func() bool {
				_ = s.Approve(s.Ctx, id, events.ToolApprovalGiven{Effect: q.Effect, Granted: true, Reason: `{"colour":"red"}`, By: "ann"}) // it may be withdrawn
				list, err := s.Approvals(s.Ctx, id)
				runtest.WantError(t, "approvals", err, nil)
				if len(list) > 0 {
					q = list[0].Approval
				}
				return len(harness.Find[*events.TurnCompleted](s.System, id)) > 0
			})
			if want == "" {
				runtest.Equal(t, "lost calls", len(harness.Find[*events.ToolLost](s.System, id)), 1)
			} else if r := s.resultOf(id); !sameJSON([]byte(r.Text), []byte(want)) {
				t.Errorf("result: got %s, want %s", r.Text, want)
			}
			harness.VerifyHistory(t, s.Bus, id)
		})
	}
}

// TestServerAsksDuringSeveralCalls has a server of the earlier version ask while it runs calls of two sessions: no session gets the
// question of another one. The server gets an error that says why, and people see it in the output of both calls.
func TestServerAsksDuringSeveralCalls(t *testing.T) {
	t.Parallel()
	s := start(t)
	server := s.own("srv")
	server.Env[oldVariable] = "1"
	s.source(server)
	one := s.begin("srv__ask", `{"silent":true}`)
	s.AwaitPolling("the first call", func() bool { return len(s.logged()) == 1 })
	output := s.watchOutput(one, "refused")
	other := s.begin("srv__ask", `{}`)
	s.AwaitTurn(other, "t1")
	if got := s.resultOf(other).Text; !strings.Contains(got, "calls of several sessions run") || !strings.Contains(got, "-32600") {
		t.Errorf("answer to the server: got %s, want the error of its question", got)
	}
	if got := output(); !strings.Contains(got, "calls of several sessions run") {
		t.Errorf("output of the first call: got %q, want why the question was refused", got)
	}
	list, err := s.Approvals(s.Ctx, other)
	runtest.WantError(t, "approvals", err, nil)
	runtest.Equal(t, "questions of the other session", len(list), 0)
}

// TestServerDiesWhileItAsks kills a server that asks. It runs again at once, the question is closed, and the call is lost.
func TestServerDiesWhileItAsks(t *testing.T) {
	t.Parallel()
	s := start(t)
	server := s.own("srv")
	server.Env[oldVariable] = "1"
	s.source(server)
	pid := s.pidOf(server)
	id := s.begin("srv__ask", `{}`)
	s.question(id, "Which one?")
	runtest.WantError(t, "kill", syscall.Kill(pid, syscall.SIGKILL), nil)
	s.AwaitPolling("the next run of the server", func() bool { return s.pidOf(server) != pid })
	s.AwaitTurn(id, "t1")
	runtest.Equal(t, "outcome", s.resultOf(id).Outcome, events.OutcomeLost)
	s.wantWithdrawn(id)
	next := s.begin("srv__ask", `{}`)
	s.give(next, s.question(next, "Which one?"), true, `{"colour":"red"}`)
	s.AwaitTurn(next, "t1")
	runtest.Equal(t, "next call", s.resultOf(next).Outcome, events.OutcomeSuccess)
}

// TestQuestionAfterCancel cancels a call that the server does not answer. The server, of the earlier version, then asks during the only
// other call, which may be for the cancelled one. In the same session people get the question. Those of another session do not: the
// server is started again once no call runs, and its next question is asked.
func TestQuestionAfterCancel(t *testing.T) {
	t.Parallel()
	for name, same := range map[string]bool{"same_session": true, "another_session": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			server := s.own("srv")
			server.Env[oldVariable] = "1"
			s.source(server)
			pid := s.pidOf(server)
			cancelled := s.begin("srv__ask", `{"silent":true}`)
			s.AwaitPolling("the call", func() bool { return len(s.logged()) == 1 })
			_, _, err := s.Cancel(s.Ctx, cancelled, "t1", api.CancelRequest{ID: "c"})
			runtest.WantError(t, "cancel", err, nil)
			s.AwaitTurn(cancelled, "t1")
			if same {
				s.StartTurn(cancelled, "t2", harness.Text(`srv__ask {}`))
				s.give(cancelled, s.question(cancelled, "Which one?"), true, `{"colour":"red"}`)
				s.AwaitTurn(cancelled, "t2")
				list := s.ResultsByPosition(cancelled)
				runtest.Equal(t, "outcome", list[len(list)-1].Outcome, events.OutcomeSuccess)
				runtest.Equal(t, "process of the server", s.pidOf(server), pid)
				return
			}
			other := s.begin("srv__ask", `{}`)
			s.AwaitTurn(other, "t1")
			if got := s.resultOf(other).Text; !strings.Contains(got, "may still work on a call of another session") {
				t.Errorf("answer to the server: got %s, want the error of its question", got)
			}
			list, err := s.Approvals(s.Ctx, other)
			runtest.WantError(t, "approvals", err, nil)
			runtest.Equal(t, "questions of the other session", len(list), 0)
			s.AwaitPolling("the end of the server", func() bool { return !s.alive(pid) })
			next := s.begin("srv__ask", `{}`)
			s.give(next, s.question(next, "Which one?"), true, `{"colour":"red"}`)
			s.AwaitTurn(next, "t1")
			runtest.Equal(t, "next call", s.resultOf(next).Outcome, events.OutcomeSuccess)
		})
	}
}

var thinking = flag.Duration("thinking", runtest.Of(0, 65*time.Second), "how long people think in TestListChangesWhileItAsks")

// TestListChangesWhileItAsks has a server change its list of tools while people think about the question of a call that must
// not run twice. The call still waits after the time of the flag -thinking, and gets the answer. Other plugins that end give their
// calls a minute: as a long test people think for longer than that.
func TestListChangesWhileItAsks(t *testing.T) {
	t.Parallel()
	s := start(t)
	server := s.own("srv")
	s.source(server)
	id := s.begin("srv__once", `{"do":"ask","text":"Which one?"}`)
	q := s.question(id, "Which one?")
	s.result("srv__look", `{"do":"more","text":"added"}`)
	s.AwaitPolling("the new list", func() bool { return slices.Contains(s.tools(), "srv__added") })
	asked := time.Now()
	s.AwaitPolling("an answer of people", func() bool { return time.Since(asked) > *thinking })
	s.give(id, q, true, `{"colour":"red"}`)
	s.AwaitTurn(id, "t1")
	if got := s.resultOf(id).Text; !sameJSON([]byte(got), []byte(`{"action":"accept","content":{"colour":"red","size":3}}`)) {
		t.Errorf("result: got %s, want the answer", got)
	}
	runtest.Equal(t, "result of the new tool", s.result("srv__added", `{"do":"x"}`).Text, "I am new")
}
