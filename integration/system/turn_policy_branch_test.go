package system

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// TestBranchHasGraphBeforeTheTurn changes the session while t1 runs: a branch has the conversation before, with the settings of now.
func TestBranchHasGraphBeforeTheTurn(t *testing.T) {
	t.Parallel()
	k := &blockingModel{}
	b, id, kill := setupConversation(t, k, 1)
	b.CommitUnchecked(id, &events.PluginStateSaved{Plugin: "memory", Version: "1", Revision: 1, State: []byte("before")})
	k.awaitStart(b, id)
	kill()
	b.CommitUnchecked(id, &events.PluginStateSaved{Plugin: "memory", Version: "1", Base: 1, Revision: 2, State: []byte("during")})
	b.CommitUnchecked(id, &events.SessionConfigured{Config: events.Config{Model: "during"}})
	b.AppendTexts(id, "during")
	branch, err := b.Worker().ContinueInBranch(b.Ctx, id, projector.QueuedTurn{ID: "t2", Behind: "t1", Input: harness.TurnRequest("t2", "t2").Input})
	runtest.WantError(t, "branch", err, nil)
	s := b.StateOf(branch)
	runtest.Equal(t, "plugins", len(s.Plugins), 1)
	runtest.Equal(t, "state", string(s.Plugins[0].State), "during")
	runtest.Equal(t, "model", s.Config.Model, "during")
	runtest.Equal(t, "tools", s.Catalog.Digest, b.StateOf(id).Catalog.Digest)
	runtest.EqualLists(t, "messages", b.Messages(branch), []string{"user t0", "assistant t0/0/model"})
	_, err = b.Worker().ContinueInBranch(b.Ctx, id, projector.QueuedTurn{ID: "t3", Behind: "t9"})
	runtest.WantError(t, "a turn that nobody asked for", err, api.ErrUnknownTurn)
}

// TestBranchTaken has another owner of the id of the branch: the turn fails, and the running one continues.
func TestBranchTaken(t *testing.T) {
	t.Parallel()
	k := &blockingModel{}
	b, id, _ := setupConversation(t, k, 2)
	b.Open(api.CreateRequest{ID: session.BranchOf(id, "t2")})
	k.awaitStart(b, id)
	_, err := b.Run(b.Ctx, id, harness.TurnWhenBusy("t2", api.WhenBusyBranch))
	runtest.WantError(t, "run", err, api.ErrTurnFailed)
	runtest.Equal(t, "why", b.AwaitTurn(id, "t2").Issue.Code, "branch_failed")
	k.frees(b, id)
	runtest.Equal(t, "end of t1", b.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.Equal(t, "turns of the other session", b.StateOf(session.BranchOf(id, "t2")).Turns, 0)
}

// TestBranchFull has no capacity for the branch of t2: t2 fails, and t1 is unaffected.
func TestBranchFull(t *testing.T) {
	t.Parallel()
	f, k := harness.StartFleet(t), &blockingModel{goOn: make(chan struct{})}
	requested := make(chan struct{}, 8)
	f.Reply = func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		requested <- struct{}{}
		return k.reply(ctx, req)
	}
	on, err := bus.Open(f.Ctx, bustest.WithKeys(t, bus.Config{Options: []nats.Option{f.Server.InProcess()}, MaxHot: 1}))
	runtest.WantError(t, "open", err, nil)
	t.Cleanup(on.Close)
	f.JoinOn(on, workers.Config{})
	id := f.Open(api.CreateRequest{})
	k.awaitStart(f.System, id)
	harness.Receive(f.System, "model call of t1", requested)
	_, err = f.Run(f.Ctx, id, harness.TurnWhenBusy("t2", api.WhenBusyBranch))
	runtest.WantError(t, "run", err, api.ErrTurnFailed)
	runtest.Equal(t, "why", f.AwaitTurn(id, "t2").Issue.Code, "branch_failed")
	k.frees(f.System, id)
	runtest.Equal(t, "end of t1", f.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.Equal(t, "further model calls", len(requested), 0)
	harness.VerifyHistory(t, f.Bus, id)
}
