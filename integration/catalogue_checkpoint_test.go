package integration

import (
	"context"
	"fmt"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

func checkpointEntries() []entry {
	return []entry{
		{"C01", "an input injected while a tool runs", "the checkpoint after work", "the next model request has it; a watcher is told", testInjectDuringTool},
		{"C02", "an input injected while the model answers", "the checkpoint before completion", "the turn goes on for one more iteration", testInjectDuringAnswer},
		{"C03", "an idle session", "inject, then a turn", "the turn takes it at its start, once", testInjectIdle},
		{"C04", "an id that was injected before", "inject again", "taken once; other content is refused", testInjectTwice},
		{"C05", "a session that does not exist, and a closed one", "inject", "an error", testInjectUnknown},
		{"C06", "an input that waits for the completion", "the checkpoint after work passes", "it enters before the completion, not there", testInjectBoundary},
		{"C07", "an input that comes after the last checkpoint", "the turn ends", "the next turn takes it", testInjectLate},
		{"C08", "65 inputs", "a turn", "64 enter at its start, and one at the next checkpoint", testInjectMany},
		{"C09", "a checkpoint hook that aborts, or fails, while an input waits", "turn", "a runtime error with the plugin's code; the input is not lost", testCheckpointAbort},
		{"C10", "a checkpoint hook that always enqueues", "turn", "goes on until the limit, then ends with it", testCheckpointLoop},
		{"C11", "a checkpoint hook that enqueues an assistant's message", "turn", "dropped, and no reason to go on", testCheckpointAssistant},
		{"C12", "a tool hook enqueues q, a checkpoint hook h, a host injects i", "the checkpoint after work", "q, h, i; the one event lists q and h, the other i", testCheckpointOrder},
		{"C13", "a turn that took an input, and whose process is killed, or whose worker is superseded", "another worker goes on", "the input is there once; the old worker writes nothing", testInjectTakeover},
		{"C14", "a pending input, and one that a turn took", "cancel", "cancelled; already claimed", testInjectCancel},
	}
}

func (b *bundle) inject(id events.SessionID, input events.InputID, s string) {
	b.t.Helper()
	_, err := b.Inject(b.ctx, id, api.InjectRequest{ID: input, Parts: []events.Part{text(s)}})
	must(b.t, "inject", err, nil)
}

// accepted renders where inputs entered.
func (b *bundle) accepted(id events.SessionID) []string {
	b.t.Helper()
	var list []string
	for _, p := range find[*events.InputAccepted](b, id) {
		list = append(list, fmt.Sprintf("%s %v", p.At, p.Inputs))
	}
	return list
}

// interrupted has a tool that injects an input, with id i1, into the session of that name.
func interrupted(t *testing.T, req api.InjectRequest, script ...step) (*bundle, events.SessionID) {
	t.Helper()
	b := setupListening(t, script...)
	id := b.open(api.CreateRequest{ID: "s"})
	plugin.AddTool(b.tools, plugin.Tool{Name: "busy"}, func(context.Context, plugin.Call, struct{}) (string, error) {
		req.ID = "i1"
		_, err := b.Inject(b.ctx, id, req)
		return "ok", err
	})
	return b, id
}

func testInjectDuringTool(t *testing.T) {
	b, id := interrupted(t, api.InjectRequest{Parts: []events.Part{text("also")}}, reply(call("k", "busy", "{}")), reply(text("done")))
	b.work(b.bus)
	var told []api.SessionEvent
	var tags []string
	for _, e := range b.turnEvents(b.Host, id, "t1", nil) {
		tags = append(tags, string(e.Type))
		if e.Type == api.EventInputAccepted {
			told = append(told, e)
		}
	}
	equalLists(t, "prompt", b.model.prompt(1), []string{"user hello", "assistant k:busy{}", "user k=ok", "user also"})
	equalLists(t, "accepted", b.accepted(id), []string{"after_work [i1]"})
	equalLists(t, "messages", b.messages(id), []string{"user hello", "assistant k:busy{}", "user k=ok", "user also", "assistant done"})
	equalLists(t, "events", tags, []string{
		"llm_request", "llm_response", "token_usage", "tool_call_start", "tool_call", "injected_turn_input_accepted",
		"llm_request", "text_delta", "llm_response", "token_usage", "turn_outcome", "done",
	})
	equal(t, "input told of", told[0].Inputs[0].ID, "i1")
	equal(t, "its text", told[0].Inputs[0].Message.Parts[0].Text, "also")
	equal(t, "its role", told[0].Inputs[0].Message.Role, events.RoleUser)
	n, err := b.state(id).Node("m_ingress_i1")
	must(t, "node", err, nil)
	equal(t, "turn of the node", n.Turn, "t1")
}

func testInjectDuringAnswer(t *testing.T) {
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	b.model.script = []step{first(func() { b.inject(id, "i1", "wait") }, reply(text("one"))), reply(text("two"))}
	b.work(b.bus)
	r := b.run(id, "t1", text("hello"))
	equal(t, "text", r.Text, "two")
	equal(t, "model calls", r.ModelCalls, 2)
	equalLists(t, "prompt", b.model.prompt(1), []string{"user hello", "assistant one", "user wait"})
	equalLists(t, "accepted", b.accepted(id), []string{"before_completion [i1]"})
}

func testInjectIdle(t *testing.T) {
	b := setup(t, reply(text("one")), reply(text("two")))
	id := b.open(api.CreateRequest{})
	b.inject(id, "i1", "by the way")
	equalLists(t, "messages before the turn", b.messages(id), []string{})
	equal(t, "inputs before the turn", len(b.state(id).Inputs), 1)
	b.run(id, "t1", text("hello"))
	b.run(id, "t2", text("and?"))
	equalLists(t, "prompt", b.model.prompt(0), []string{"user by the way", "user hello"})
	equalLists(t, "accepted", b.accepted(id), []string{"start [i1]"})
	equalLists(t, "messages", b.messages(id), []string{"user by the way", "user hello", "assistant one", "user and?", "assistant two"})
}

func testInjectTwice(t *testing.T) {
	b := setup(t, reply(text("one")))
	id := b.open(api.CreateRequest{})
	other := b.otherHost()
	again := func(parts ...events.Part) error {
		_, err := other.Inject(b.ctx, id, api.InjectRequest{ID: "i1", Parts: parts})
		return err
	}
	b.inject(id, "i1", "once")
	must(t, "again", again(text("once")), nil)
	must(t, "other content", again(text("twice")), api.ErrDifferent)
	equal(t, "injected", len(find[*events.InputInjected](b, id)), 1)
	b.run(id, "t1", text("hello"))
	before := b.last(id)
	must(t, "again after it was taken", again(text("once")), nil)
	must(t, "other content after it was taken", again(text("twice")), api.ErrDifferent)
	equal(t, "last sequence", b.last(id), before)
	equalLists(t, "messages", b.messages(id), []string{"user once", "user hello", "assistant one"})
}

func testInjectUnknown(t *testing.T) {
	b := setupIdle(t)
	_, err := b.Inject(b.ctx, "nobody", api.InjectRequest{Parts: []events.Part{text("hello")}})
	must(t, "unknown", err, events.ErrNoSession)
	_, err = b.State(b.ctx, "nobody")
	must(t, "state afterwards", err, events.ErrNoSession)
	id := b.open(api.CreateRequest{})
	must(t, "close", b.CloseSession(b.ctx, id, "done"), nil)
	before := b.last(id)
	_, err = b.Inject(b.ctx, id, api.InjectRequest{Parts: []events.Part{text("hello")}})
	must(t, "closed", err, api.ErrClosed)
	equal(t, "last sequence", b.last(id), before)
}

func testInjectBoundary(t *testing.T) {
	b, id := interrupted(t, api.InjectRequest{Parts: []events.Part{text("also")}, Boundary: events.BoundaryBeforeCompletion},
		reply(call("k", "busy", "{}")), reply(text("one")), reply(text("two")))
	b.work(b.bus)
	equal(t, "text", b.run(id, "t1", text("hello")).Text, "two")
	shown := []string{"user hello", "assistant k:busy{}", "user k=ok"}
	equalLists(t, "prompt after work", b.model.prompt(1), shown)
	equalLists(t, "prompt after the answer", b.model.prompt(2), append(shown, "assistant one", "user also"))
	equalLists(t, "accepted", b.accepted(id), []string{"before_completion [i1]"})
}

// testInjectLate injects when the hooks after the turn are asked, and all else of it is durable: nothing enters any more.
func testInjectLate(t *testing.T) {
	b := setupIdle(t, reply(text("one")), reply(text("two")))
	id := events.SessionID("s")
	b.node(declares("late", func(r *plugin.Registrar) {
		r.AfterTurn(func(_ context.Context, in plugin.TurnResultContext) ([]plugin.Directive, error) {
			if in.Turn == "t1" {
				b.await(id, "last checkpoint", func(s *projector.State) bool { return s.Turn() != nil && s.Turn().Checkpoint == events.AtEnd })
				b.inject(id, "i1", "late")
			}
			return nil, nil
		})
	}))
	b.open(api.CreateRequest{ID: id})
	r := b.run(id, "t1", text("hello"))
	equal(t, "end", r.End, events.EndFinished)
	equal(t, "text", r.Text, "one")
	equal(t, "inputs after the turn", len(b.state(id).Inputs), 1)
	b.run(id, "t2", text("go on"))
	equalLists(t, "next prompt", b.model.prompt(1), []string{"user hello", "assistant one", "user late", "user go on"})
	equalLists(t, "accepted", b.accepted(id), []string{"start [i1]"})
}

func testInjectMany(t *testing.T) {
	b := setup(t, reply(text("one")), reply(text("two")))
	id := b.open(api.CreateRequest{})
	var want []string
	for i := range 65 {
		b.inject(id, events.InputID(fmt.Sprintf("i%d", i)), fmt.Sprint(i))
		want = append(want, fmt.Sprint("user ", i))
	}
	b.run(id, "t1", text("go"))
	var took []int
	for _, p := range find[*events.InputAccepted](b, id) {
		took = append(took, len(p.Inputs))
	}
	equalLists(t, "taken", took, []int{64, 1})
	equalLists(t, "first prompt", b.model.prompt(0), append(want[:64:64], "user go"))
	equalLists(t, "second prompt", b.model.prompt(1), append(want[:64:64], "user go", "assistant one", want[64]))
}

// testInjectTakeover kills a worker in the model call that has the input, and
// lets another one find out that its turn is in other hands.
func testInjectTakeover(t *testing.T) {
	begun := make(chan struct{})
	b, id := interrupted(t, api.InjectRequest{Parts: []events.Part{text("also")}},
		reply(call("k", "busy", "{}")), hangs(begun), reply(text("done")))
	kill := b.process("", nil)
	b.submit(id, "t1", text("hello"))
	receive(b, "begun", begun)
	kill()
	b.work(b.bus)
	equal(t, "attempts", b.ended(id, "t1").Attempts, 2)
	equalLists(t, "prompt", b.model.prompt(2), []string{"user hello", "assistant k:busy{}", "user k=ok", "user also"})
	equalLists(t, "accepted", b.accepted(id), []string{"after_work [i1]"})
	equalLists(t, "messages", b.messages(id), []string{"user hello", "assistant k:busy{}", "user k=ok", "user also", "assistant done"})

	old := setupIdle(t)
	id = old.open(api.CreateRequest{})
	old.model.script = []step{first(func() {
		old.inject(id, "i1", "also") // the old worker is about to take it with its reply
		old.commitTurn(id, &events.TurnStarted{Attempt: 2, Worker: "other", Job: "t1"})
	}, reply(text("too late"))), reply(text("one")), reply(text("two"))}
	old.work(old.bus)
	equal(t, "text", old.run(id, "t1", text("hello")).Text, "two")
	equalLists(t, "messages", old.messages(id), []string{"user hello", "assistant one", "user also", "assistant two"})
	equalLists(t, "accepted", old.accepted(id), []string{"before_completion [i1]"})
}

func testInjectCancel(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	b := setupIdle(t, first(func() { close(begun); <-release }, reply(text("one"))))
	id := b.open(api.CreateRequest{})
	cancel := func(inputs ...events.InputID) []api.InputReceipt {
		t.Helper()
		got, err := b.otherHost().CancelInputs(b.ctx, id, inputs...)
		must(t, "cancel", err, nil)
		return got
	}
	b.inject(id, "i1", "first")
	b.inject(id, "i2", "never")
	equalLists(t, "pending", cancel("i2", "i9"), []api.InputReceipt{api.InputCancelled, api.InputNotFound})
	equalLists(t, "again", cancel("i2"), []api.InputReceipt{api.InputAlreadyCancelled})
	b.work(b.bus)
	b.submit(id, "t1", text("hello"))
	receive(b, "begun", begun)
	for i := 3; i <= 6; i++ {
		b.inject(id, events.InputID(fmt.Sprint("i", i)), fmt.Sprint(i))
	}
	before := b.last(id)
	equalLists(t, "claimed, pending", cancel("i1", "i4", "i3", "i4"), []api.InputReceipt{
		api.InputAlreadyClaimed, api.InputCancelled, api.InputCancelled, api.InputCancelled,
	})
	equal(t, "commits of a cancel of many", b.last(id), before+1)
	receipt, gone, err := b.CancelInputsFrom(b.ctx, id, "i5")
	must(t, "cancel from", err, nil)
	equal(t, "receipt", receipt, api.InputCancelled)
	equalLists(t, "suffix", gone, []events.InputID{"i5", "i6"})
	receipt, gone, err = b.CancelInputsFrom(b.ctx, id, "i1")
	must(t, "cancel from a claimed one", err, nil)
	equal(t, "receipt", receipt, api.InputAlreadyClaimed)
	equal(t, "suffix", len(gone), 0)
	close(release)
	b.await(id, "end", (*projector.State).Idle)
	equalLists(t, "completed", cancel("i1"), []api.InputReceipt{api.InputAlreadyCompleted})
	equalLists(t, "messages", b.messages(id), []string{"user first", "user hello", "assistant one"})
	_, err = b.CancelInputs(b.ctx, "nobody", "i1")
	must(t, "unknown session", err, events.ErrNoSession)
}
