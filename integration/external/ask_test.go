package external

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin/wire"
)

// asking are the arguments of a call that asks people by a callback.
const asking = `{"do":"request","method":"POST","path":"` + wire.AskPath + `","body":{"question":"Which one?","details":{"of":["red","blue"]}}}`

// asks starts a node and the plugin, whose call of a tool asks people, and waits for the question.
func (s *setting) asks(tool string) (id events.SessionID, question projector.Approval, kill func(), programs map[string]*process) {
	s.T.Helper()
	s.Model.Rescript(calling(tool, `{"do":"people"}`)...)
	s.allowing(wire.AskOperation)
	kill = s.node()
	programs = map[string]*process{"i1": s.program("i1"), "i2": s.program("i2")}
	id = s.begin()
	return id, s.question(id), kill, programs
}

// question waits for the question of a session, while no node has its turn.
func (s *setting) question(id events.SessionID) projector.Approval {
	s.T.Helper()
	var list []api.PendingApproval
	s.AwaitPolling("the question", func() bool {
		var err error
		list, err = s.Approvals(s.Ctx, id)
		runtest.WantError(s.T, "approvals", err, nil)
		return len(list) > 0
	})
	return list[0].Approval
}

func (s *setting) give(id events.SessionID, question projector.Approval, granted bool, reason string) {
	s.T.Helper()
	runtest.WantError(s.T, "answer", s.Approve(s.Ctx, id, events.ToolApprovalGiven{Effect: question.Effect, Granted: granted, Reason: reason, By: "ann"}), nil)
}

// TestCallAsksPeople has a call ask people. It gets their answer, and runs once, on any node.
func TestCallAsksPeople(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"act", "ask"} {
		for name, granted := range map[string]bool{"granted": true, "refused": false} {
			for _, killed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s_%s_node_killed_%v", tool, name, killed), func(t *testing.T) {
					t.Parallel()
					s := start(t)
					id, question, kill, _ := s.asks(tool)
					if question.Question != "Which one?" || question.Plugin != "notes" || question.Tool != tool || string(question.Args) != `{"of":["red","blue"]}` {
						t.Errorf("question: got %+v, want that of the call", question)
					}
					if killed {
						s.node()
						kill()
					}
					s.give(id, question, granted, "red")
					s.AwaitTurn(id, "t1")
					s.wantResult(id, fmt.Sprintf(`{"granted":%v,"reason":"red","by":"ann"}`, granted))
					runtest.DeepEqual(t, "runs", s.began(), 1)
					harness.VerifyHistory(t, s.Bus, id)
				})
			}
		}
	}
}

// TestInstanceDiesWhileItAsks kills the instance that asks. After the answer the call is lost, or runs again and gets the
// answer to its question, as its effects say.
func TestInstanceDiesWhileItAsks(t *testing.T) {
	t.Parallel()
	for tool, want := range map[string]string{"act": projector.LostText, "ask": `{"granted":true,"reason":"red","by":"ann"}`} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			id, question, _, programs := s.asks(tool)
			programs[strings.Fields(s.logged("began", 1)[0])[2]].kill()
			s.alive(1)
			s.give(id, question, true, "red")
			s.AwaitTurn(id, "t1")
			s.wantResult(id, want)
			runtest.DeepEqual(t, "questions", len(harness.Find[*events.ToolApprovalAsked](s.System, id)), 1)
			runtest.DeepEqual(t, "runs", s.began(), map[string]int{"act": 1, "ask": 2}[tool])
		})
	}
}

// TestCancelWhileACallAsks cancels a turn that waits for an answer: the call ends at its instance, also where another node
// has the turn.
func TestCancelWhileACallAsks(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"act", "ask"} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s_node_killed_%v", tool, killed), func(t *testing.T) {
				t.Parallel()
				s := start(t)
				id, _, kill, _ := s.asks(tool)
				if killed {
					p, _ := s.nodeOf([]string{"notes"})
					s.known(p, "notes", 2)
					kill()
				}
				s.cancel(id)
				runtest.DeepEqual(t, "end", s.AwaitTurn(id, "t1").End, events.EndCancelled)
				s.logged("stopped", 1)
			})
		}
	}
}

// TestAskRefused has calls ask what they may not: the operator does not let the plugin, the question is wrong, or the call
// cannot wait. The answer says so, and no question is in the history.
func TestAskRefused(t *testing.T) {
	t.Parallel()
	body := func(text string) string { return strings.Replace(asking, `"Which one?"`, text, 1) }
	for name, c := range map[string]struct {
		args string
		may  []string
		code bool // the call is inside a program
		want string
	}{
		"not_allowed": {asking, []string{"createSession"}, false, "403 "},
		"no_question": {body(`""`), []string{"ask"}, false, "400 "},
		"too_long":    {body(`"` + strings.Repeat("x", wire.MaxQuestion+1) + `"`), []string{"ask"}, false, "400 "},
		"method":      {strings.Replace(asking, "POST", "GET", 1), []string{"ask"}, false, "400 "},
		"cannot_wait": {`act, do="request", method="POST", path="/v1/ask", body={"question": "Which one?"}`, []string{"ask"}, true, "409 "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, calling("act", c.args)...)
			s.allowing(c.may...)
			in := api.CreateRequest{}
			if c.code {
				s.coded("nested", c.args)
				in = harness.CodeSession()
			}
			s.node()
			s.program("i1")
			id := s.Open(in)
			s.RunTurn(id, "t1", harness.Text("go"))
			got := ""
			if c.code {
				got = strings.TrimPrefix(s.Outputs(id)[0], "True ")
			} else {
				got = s.CallResult(id, "k")
			}
			if !strings.HasPrefix(got, c.want) {
				t.Errorf("result: got %q, want %s", got, c.want)
			}
			runtest.DeepEqual(t, "questions", len(harness.Find[*events.ToolApprovalAsked](s.System, id)), 0)
		})
	}
}

// TestInnerCallAsksPeople has a repeatable call inside a program ask: the program runs again, and gets the answer.
func TestInnerCallAsksPeople(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.allowing(wire.AskOperation)
	s.coded("nested", `ask, do="request", method="POST", path="/v1/ask", body={"question": "Which one?"}`)
	s.node()
	s.program("i1")
	id := s.Open(harness.CodeSession())
	s.StartTurn(id, "t1", harness.Text("go"))
	s.give(id, s.question(id), true, "red")
	s.AwaitTurn(id, "t1")
	if got := s.Outputs(id)[0]; !strings.HasPrefix(got, `True 200 {"granted":true,"reason":"red","by":"ann"}`) {
		t.Errorf("output: got %q, want the answer", got)
	}
	runtest.DeepEqual(t, "runs", s.began(), 1)
}

// TestTypeScriptAsksPeople has a call of the SDK of TypeScript ask people.
func TestTypeScriptAsksPeople(t *testing.T) {
	t.Parallel()
	path := copyInto(t, modules(t), filepath.Join("testdata", "notes-sdk.mjs"))
	on := oneServer(t)
	on.program = func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, "node", path) } //nolint:gosec // a file of this test
	s := on.start(t)
	id, question, _, _ := s.asks("act")
	s.give(id, question, true, "red")
	s.AwaitTurn(id, "t1")
	s.wantResult(id, `{"granted":true,"reason":"red","by":"ann"}`)
	runtest.DeepEqual(t, "runs", s.began(), 1)
}
