package integration

import (
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// TestBranchState changes what a session is while t1 runs: a branch is as the session was before.
func TestBranchState(t *testing.T) {
	t.Parallel()
	k := &talker{}
	b, id, kill := setupTalk(t, k, 1)
	b.commitWith(id, &events.PluginStateSaved{Plugin: "memory", Version: "1", Revision: 1, State: []byte("before")})
	k.begins(b, id)
	kill()
	b.commitWith(id, &events.PluginStateSaved{Plugin: "memory", Version: "1", Revision: 2, State: []byte("during")})
	b.commitWith(id, &events.SessionConfigured{Config: events.Config{Model: "during"}})
	b.say(id, "during")
	branch, err := b.Branch(b.ctx, id, projector.QueuedTurn{ID: "t2", Behind: "t1", Input: asksTurn("t2", "t2").Input})
	must(t, "branch", err, nil)
	s := b.state(branch)
	equal(t, "plugins", len(s.Plugins), 1)
	equal(t, "state", string(s.Plugins[0].State), "before")
	equal(t, "model", s.Config.Model, "")
	equal(t, "tools", s.Catalog.Digest, b.state(id).Catalog.Digest)
	equalLists(t, "messages", b.messages(branch), []string{"user t0", "assistant t0/0/model"})
	_, err = b.Branch(b.ctx, id, projector.QueuedTurn{ID: "t3", Behind: "t9"})
	must(t, "a turn that nobody asked for", err, session.ErrUnknownTurn)
}

// TestBranchTaken has somebody else own the session's id: the turn fails, and the running one goes on.
func TestBranchTaken(t *testing.T) {
	t.Parallel()
	k := &talker{}
	b, id, _ := setupTalk(t, k, 2)
	b.open(session.CreateRequest{ID: session.BranchOf(id, "t2")})
	k.begins(b, id)
	_, err := b.Run(b.ctx, id, asksBusy("t2", session.WhenBusyBranch))
	must(t, "run", err, api.ErrTurnFailed)
	equal(t, "why", b.ended(id, "t2").Issue.Code, "branch_failed")
	k.frees(b, id)
	equal(t, "end of t1", b.ended(id, "t1").End, events.EndFinished)
	equal(t, "turns of the other session", b.state(session.BranchOf(id, "t2")).Turns, 0)
}
