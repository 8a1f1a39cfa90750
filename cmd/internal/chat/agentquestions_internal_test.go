package chat

import (
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// TestAgentsQuestions has two agents ask, and then the session itself. Each answer goes to the session of the question that is
// shown; a question that another user answers disappears.
func TestAgentsQuestions(t *testing.T) {
	t.Parallel()
	m := newProgram(&Talk{}, "s", true)
	m.driver, m.drawn = &driver{talk: m.talk}, true
	m.view = running(t, Options{})
	of := func(agent events.SessionID) api.PendingApproval {
		return api.PendingApproval{Session: agent, Approval: projector.Approval{ToolApprovalAsked: events.ToolApprovalAsked{
			Effect: "call-1/0/0", Tool: "write_file", Args: []byte(`{"path":"x"}`), Plugin: "gate", Question: "Let it write?",
		}}}
	}
	said := func(list []Line) string {
		var b strings.Builder
		for _, l := range list {
			b.WriteString(l.Text + "\n")
		}
		return b.String()
	}
	const question = "? Let it write? (asks gate, for agent a1)\n  write_file {\"path\":\"x\"}\n  y lets it run; n, or n and a reason, refuses it\n"
	own := api.PendingApproval{Session: "s"}
	if got, want := said(m.view.Asked([]api.PendingApproval{own, of("a1"), of("a2")})), question+strings.ReplaceAll(question, "a1", "a2"); got != want {
		t.Errorf("first read: got %q, want %q", got, want)
	}
	runtest.Equal(t, "next read", said(m.view.Asked([]api.PendingApproval{of("a1"), of("a2")})), "")
	m.Update(printedMsg{})
	runtest.Contains(t, "status", m.View().Content, "waiting for an approval of write_file, for agent a1")
}

// TestAnswersGoToTheAgent answers an agent's question, one whose agent was answered meanwhile, and the session's own, which has
// priority.
func TestAnswersGoToTheAgent(t *testing.T) {
	t.Parallel()
	m := asking(t)
	agent := api.PendingApproval{Session: "a1", Approval: projector.Approval{ToolApprovalAsked: events.ToolApprovalAsked{Effect: "call-1/0/0", Tool: "write_file"}}}
	m.view.Asked([]api.PendingApproval{agent})
	press(m, "y", "enter")
	see(t, m, events.Of("t1", &events.ToolApprovalGiven{Effect: "t1/0/0", Granted: true, By: "ann"}))
	press(m, "n", " ", "x", "enter")
	want := []Action{{Verb: Answer, Session: "s", Effect: "t1/0/0", Granted: true}, {Verb: Answer, Session: "a1", Effect: "call-1/0/0", Text: "x"}}
	runtest.EqualLists(t, "asked", asked(m), want)
	press(m, "y")
	if lines := m.view.Asked(nil); len(lines) != 1 || !strings.Contains(lines[0].Text, "agent a1 waits no more") {
		t.Errorf("answered elsewhere: got %+v, want a note", lines)
	}
	press(m, "enter")
	runtest.Equal(t, "typed for a question that is gone", len(asked(m)), len(want))
}
