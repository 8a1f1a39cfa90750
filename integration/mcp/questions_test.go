package mcp

import (
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/mcp"
)

// old is a server of an earlier version of the protocol, on a node with its source.
func (s *setting) old() mcp.Server {
	s.T.Helper()
	server := s.own("srv")
	server.Env[oldVariable] = "1"
	s.source(server)
	return server
}

// watchOutput collects the output of the calls of a session's first turn. The function waits until it has a text.
func (s *setting) watchOutput(id events.SessionID, text string) func() string {
	s.T.Helper()
	list, err := s.WatchTurn(s.Ctx, id, "t1")
	runtest.WantError(s.T, "watch", err, nil)
	found := make(chan string, 1)
	go func() { // ends with the output, or with the test's context
		all := ""
		for e, err := range list {
			if err != nil {
				break
			}
			if e.Type == api.EventToolOutput {
				all += e.Text
			}
			if strings.Contains(all, text) {
				break
			}
		}
		found <- all
	}()
	return func() string { return <-found }
}

// wantWithdrawn wants all questions of a session denied in the name of the plugin.
func (s *setting) wantWithdrawn(id events.SessionID) {
	s.T.Helper()
	asked, given := harness.Find[*events.ToolApprovalAsked](s.System, id), harness.Find[*events.ToolApprovalGiven](s.System, id)
	if len(asked) == 0 || len(given) != len(asked) {
		s.T.Fatalf("got %d questions and %d answers, want one of each", len(asked), len(given))
	}
	for _, g := range given {
		if g.Granted || g.By != "plugin-srv" || !strings.Contains(g.Reason, "withdrawn") {
			s.T.Errorf("answer: got %+v, want that of the plugin which withdrew it", g)
		}
	}
}

// TestQuestionsOfParallelCalls has a server of the earlier version ask in two calls of one reply, which run at once. People of the
// session get both questions, and one again whose call ends before its answer arrives. Each call gets an answer.
func TestQuestionsOfParallelCalls(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.old()
	id := s.begin("srv__ask", "{}\nsrv__ask {}")
	s.AwaitPolling("both questions", func() bool {
		list, err := s.Approvals(s.Ctx, id)
		runtest.WantError(t, "approvals", err, nil)
		return len(list) == 2
	})
	s.answerAll(id, `{"colour":"red"}`)
	for _, r := range s.ResultsByPosition(id) {
		runtest.Equal(t, "outcome", r.Outcome, events.OutcomeSuccess)
	}
	for _, call := range []string{"k", "k1"} {
		runtest.Equal(t, "result", s.CallResult(id, call), `{"action":"accept","content":{"colour":"red","size":3}}`)
	}
	harness.VerifyHistory(t, s.Bus, id)
}

// TestQuestionIsGivenUp has a server give up its question, with a notification or with the answer to the call. The history has an
// answer in the name of the plugin, nothing waits for people, and the call goes on until its own end.
func TestQuestionIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"question", "call"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			s.old()
			id := s.begin("srv__ask", `{}`)
			s.question(id, "Which one?")
			runtest.Equal(t, "result", s.result("srv__ask", `{"give_up":"`+how+`"}`).Text, "gave up")
			s.AwaitPolling("the answer in the history", func() bool { return len(harness.Find[*events.ToolApprovalGiven](s.System, id)) == 1 })
			if how == "question" {
				runtest.Equal(t, "results while the call runs", len(s.ResultsByPosition(id)), 0)
				runtest.Equal(t, "result", s.result("srv__ask", `{"give_up":"call"}`).Text, "gave up")
			}
			s.AwaitTurn(id, "t1")
			runtest.Equal(t, "result", s.resultOf(id).Text, "went on")
			s.wantWithdrawn(id)
			list, err := s.Approvals(s.Ctx, id)
			runtest.WantError(t, "approvals", err, nil)
			runtest.Equal(t, "open questions", len(list), 0)
			harness.VerifyHistory(t, s.Bus, id)
		})
	}
}

// TestQuestionsAreGivenUpAtOnce has a server give up each question right after it, many of them while the history gets the question. None
// stays open for people.
func TestQuestionsAreGivenUpAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.source(s.raw(rawTools))
	const between = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"x","progress":1}}` // one processor may read all at once
	id := s.begin("srv__once", sayingOf(saying{Times: 1500, Silent: true, Lines: []string{
		`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Which one of $N?"}}`, between, between, between, between, between,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}`,
	}}))
	s.AwaitPolling("all lines", func() bool { return slices.Contains(s.logged(), "said") })
	s.AwaitPolling("an answer to each question", func() bool {
		given := len(harness.Find[*events.ToolApprovalGiven](s.System, id))
		return given > 3 && given == len(harness.Find[*events.ToolApprovalAsked](s.System, id))
	})
	s.wantWithdrawn(id)
	_, _, err := s.Cancel(s.Ctx, id, "t1", api.CancelRequest{})
	runtest.WantError(t, "cancel", err, nil)
	s.AwaitTurn(id, "t1")
	harness.VerifyHistory(t, s.Bus, id)
}

// TestRepeatedCallAsksAgain kills a server that asks in a call which may repeat. The next run of the call asks too: people answer what
// is open, the question that the call still has or the next one, and the call has their answer.
func TestRepeatedCallAsksAgain(t *testing.T) {
	t.Parallel()
	s := start(t)
	server := s.old()
	pid := s.pidOf(server)
	id := s.begin("srv__look", `{}`)
	s.question(id, "Which one?")
	s.kill(pid)
	s.AwaitPolling("the next run of the server", func() bool { return s.pidOf(server) != pid })
	s.AwaitPolling("the result of the call", func() bool {
		list, err := s.Approvals(s.Ctx, id)
		runtest.WantError(t, "approvals", err, nil)
		for _, q := range list { // it may be withdrawn now
			_ = s.Approve(s.Ctx, id, events.ToolApprovalGiven{Effect: q.Effect, Granted: true, Reason: `{"colour":"red"}`, By: "ann"})
		}
		return len(s.ResultsByPosition(id)) > 0
	})
	s.AwaitTurn(id, "t1")
	runtest.Equal(t, "result", s.resultOf(id).Text, `{"action":"accept","content":{"colour":"red","size":3}}`)
	harness.VerifyHistory(t, s.Bus, id)
}
