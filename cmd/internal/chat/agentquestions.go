package chat

import (
	"context"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// agentQuestions reads the questions of agents, whose commits a chat does not observe: an agent has a session of its own.
type agentQuestions struct {
	talk    *Talk
	found   chan openQuestions
	running bool
}

// openQuestions are the open questions of a session and its agents.
type openQuestions struct {
	of   events.SessionID
	list []api.PendingApproval
	err  error
}

func newAgentQuestions(t *Talk) *agentQuestions {
	return &agentQuestions{talk: t, found: make(chan openQuestions, 1)}
}

// poll returns lines about the questions of the last read, and starts the next one while agents work. A session whose agents have
// ended has no questions of theirs.
func (a *agentQuestions) poll(ctx context.Context, id events.SessionID, v *View) (lines []Line) {
	select {
	case got := <-a.found:
		a.running = false
		if v != nil && got.err == nil && got.of == id {
			lines = v.Asked(got.list)
		}
	default:
	}
	switch {
	case v == nil || a.running:
	case v.hasAgents():
		a.running = true
		go func() { // the channel has a place for the result of the one read
			list, err := a.talk.Service.Approvals(ctx, id)
			a.found <- openQuestions{id, list, err}
		}()
	case len(v.agents) > 0:
		lines = append(lines, v.Asked(nil)...)
	}
	return lines
}
