package integration

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
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
	must(t, "a turn that nobody asked for", err, api.ErrUnknownTurn)
}

// TestBranchTaken has somebody else own the session's id: the turn fails, and the running one goes on.
func TestBranchTaken(t *testing.T) {
	t.Parallel()
	k := &talker{}
	b, id, _ := setupTalk(t, k, 2)
	b.open(api.CreateRequest{ID: session.BranchOf(id, "t2")})
	k.begins(b, id)
	_, err := b.Run(b.ctx, id, asksBusy("t2", api.WhenBusyBranch))
	must(t, "run", err, api.ErrTurnFailed)
	equal(t, "why", b.ended(id, "t2").Issue.Code, "branch_failed")
	k.frees(b, id)
	equal(t, "end of t1", b.ended(id, "t1").End, events.EndFinished)
	equal(t, "turns of the other session", b.state(session.BranchOf(id, "t2")).Turns, 0)
}

// TestBranchFull has no room for the session in which t2 would go on: t2 fails, and t1 hears nothing of it.
func TestBranchFull(t *testing.T) {
	t.Parallel()
	f, k := setupFleet(t), &talker{goOn: make(chan struct{})}
	asked := make(chan struct{}, 8)
	f.answer = func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		asked <- struct{}{}
		return k.answer(ctx, req)
	}
	on, err := bus.Open(f.ctx, bus.Config{Options: []nats.Option{f.server.InProcess()}, MaxHot: 1})
	must(t, "open", err, nil)
	t.Cleanup(on.Close)
	f.joinOn(on, workers.Config{})
	id := f.open(api.CreateRequest{})
	k.begins(f.bundle, id)
	receive(f.bundle, "model call of t1", asked)
	_, err = f.Run(f.ctx, id, asksBusy("t2", api.WhenBusyBranch))
	must(t, "run", err, api.ErrTurnFailed)
	equal(t, "why", f.ended(id, "t2").Issue.Code, "branch_failed")
	k.frees(f.bundle, id)
	equal(t, "end of t1", f.ended(id, "t1").End, events.EndFinished)
	equal(t, "further model calls", len(asked), 0)
	verified(t, f.bus, id)
}
