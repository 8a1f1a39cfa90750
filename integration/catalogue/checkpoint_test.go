package catalogue

import (
	"context"
	"fmt"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

func checkpointEntries() []entry {
	return []entry{
		{"C01", "input during a tool enters at the next checkpoint", "an input injected while a tool runs", "the checkpoint after work", "the next model request has it; a watcher is told", testInjectDuringTool},
		{"C02", "input during a reply adds an iteration", "an input injected while the model answers", "the checkpoint before completion", "the turn goes on for one more iteration", testInjectDuringReply},
		{"C03", "input of an idle session starts with the next turn", "an idle session", "inject, then a turn", "the turn takes it at its start, once", testInjectIdle},
		{"C04", "input id is idempotent", "an id that was injected before", "inject again", "taken once; other content is refused", testInjectTwice},
		{"C05", "input of an unknown or closed session fails", "a session that does not exist, and a closed one", "inject", "an error", testInjectUnknown},
		{"C06", "input waits for its own checkpoint", "an input that waits for the completion", "the checkpoint after work passes", "it enters before the completion, not there", testInjectBoundary},
		{"C07", "late input goes to the next turn", "an input that comes after the last checkpoint", "the turn ends", "the next turn takes it", testInjectLate},
		{"C08", "checkpoint takes 64 inputs at most", "65 inputs", "a turn", "64 enter at its start, and one at the next checkpoint", testInjectMany},
		{"C09", "failed checkpoint hook keeps the input", "a checkpoint hook that aborts, or fails, while an input waits", "turn", "a runtime error with the plugin's code; the input is not lost", testCheckpointAbort},
		{"C10", "checkpoint hook is stopped by the limit", "a checkpoint hook that always enqueues", "turn", "goes on until the limit, then ends with it", testCheckpointLoop},
		{"C11", "assistant message of a checkpoint hook is dropped", "a checkpoint hook that enqueues an assistant's message", "turn", "dropped, and no reason to go on", testCheckpointAssistant},
		{"C12", "order of inputs at a checkpoint", "a tool hook enqueues q, a checkpoint hook h, a host injects i", "the checkpoint after work", "q, h, i; the one event lists q and h, the other i", testCheckpointOrder},
		{"C13", "input is taken once over a takeover", "a turn that took an input, and whose process is killed, or whose worker is superseded", "another worker goes on", "the input is there once; the old worker writes nothing", testInjectTakeover},
		{"C14", "pending input is cancelled and a taken one is not", "a pending input, and one that a turn took", "cancel", "cancelled; already claimed", testInjectCancel},
	}
}

func inject(b *harness.System, id events.SessionID, input events.InputID, s string) {
	b.T.Helper()
	_, err := b.Inject(b.Ctx, id, api.InjectRequest{ID: input, Parts: []events.Part{harness.Text(s)}})
	runtest.WantError(b.T, "inject", err, nil)
}

// accepted renders where inputs entered the turn.
func accepted(b *harness.System, id events.SessionID) []string {
	b.T.Helper()
	var list []string
	for _, p := range harness.Find[*events.InputAccepted](b, id) {
		list = append(list, fmt.Sprintf("%s %v", p.At, p.Inputs))
	}
	return list
}

// interrupted has a tool that injects an input, with id i1, into a session.
func interrupted(t *testing.T, req api.InjectRequest, script ...harness.Step) (*harness.System, events.SessionID) {
	t.Helper()
	b := setupListening(t, script...)
	id := b.Open(api.CreateRequest{ID: "s"})
	plugin.AddTool(b.Tools, plugin.Tool{Name: "busy"}, func(context.Context, plugin.Call, struct{}) (string, error) {
		req.ID = "i1"
		_, err := b.Inject(b.Ctx, id, req)
		return "ok", err
	})
	return b, id
}

func testInjectDuringTool(t *testing.T) {
	b, id := interrupted(t, api.InjectRequest{Parts: []events.Part{harness.Text("also")}}, harness.Reply(harness.Call("k", "busy", "{}")), harness.Reply(harness.Text("done")))
	b.StartWorker(b.Bus)
	var emitted []api.SessionEvent
	var tags []string
	for _, e := range b.TurnEvents(b.Host, id, "t1", nil) {
		tags = append(tags, string(e.Type))
		if e.Type == api.EventInputAccepted {
			emitted = append(emitted, e)
		}
	}
	runtest.EqualLists(t, "prompt", b.Model.Prompt(1), []string{"user hello", "assistant k:busy{}", "user k=ok", "user also"})
	runtest.EqualLists(t, "accepted", accepted(b, id), []string{"after_work [i1]"})
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user hello", "assistant k:busy{}", "user k=ok", "user also", "assistant done"})
	runtest.EqualLists(t, "events", tags, []string{
		"llm_request", "llm_response", "token_usage", "tool_call_start", "tool_call", "injected_turn_input_accepted",
		"llm_request", "text_delta", "llm_response", "token_usage", "turn_outcome", "done",
	})
	runtest.Equal(t, "input told of", emitted[0].Inputs[0].ID, "i1")
	runtest.Equal(t, "its text", emitted[0].Inputs[0].Message.Parts[0].Text, "also")
	runtest.Equal(t, "its role", emitted[0].Inputs[0].Message.Role, events.RoleUser)
	n, err := b.StateOf(id).Node("m_ingress_i1")
	runtest.WantError(t, "node", err, nil)
	runtest.Equal(t, "turn of the node", n.Turn, "t1")
}

func testInjectDuringReply(t *testing.T) {
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	b.Model.Script = []harness.Step{harness.DoFirst(func() { inject(b, id, "i1", "wait") }, harness.Reply(harness.Text("one"))), harness.Reply(harness.Text("two"))}
	b.StartWorker(b.Bus)
	r := b.RunTurn(id, "t1", harness.Text("hello"))
	runtest.Equal(t, "text", r.Text, "two")
	runtest.Equal(t, "model calls", r.ModelCalls, 2)
	runtest.EqualLists(t, "prompt", b.Model.Prompt(1), []string{"user hello", "assistant one", "user wait"})
	runtest.EqualLists(t, "accepted", accepted(b, id), []string{"before_completion [i1]"})
}

func testInjectIdle(t *testing.T) {
	b := harness.Start(t, harness.Reply(harness.Text("one")), harness.Reply(harness.Text("two")))
	id := b.Open(api.CreateRequest{})
	inject(b, id, "i1", "by the way")
	runtest.EqualLists(t, "messages before the turn", b.Messages(id), []string{})
	runtest.Equal(t, "inputs before the turn", len(b.StateOf(id).Inputs), 1)
	b.RunTurn(id, "t1", harness.Text("hello"))
	b.RunTurn(id, "t2", harness.Text("and?"))
	runtest.EqualLists(t, "prompt", b.Model.Prompt(0), []string{"user by the way", "user hello"})
	runtest.EqualLists(t, "accepted", accepted(b, id), []string{"start [i1]"})
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user by the way", "user hello", "assistant one", "user and?", "assistant two"})
}

func testInjectTwice(t *testing.T) {
	b := harness.Start(t, harness.Reply(harness.Text("one")))
	id := b.Open(api.CreateRequest{})
	other := b.OtherHost()
	again := func(parts ...events.Part) error {
		_, err := other.Inject(b.Ctx, id, api.InjectRequest{ID: "i1", Parts: parts})
		return err
	}
	inject(b, id, "i1", "once")
	runtest.WantError(t, "again", again(harness.Text("once")), nil)
	runtest.WantError(t, "other content", again(harness.Text("twice")), api.ErrDifferent)
	runtest.Equal(t, "injected", len(harness.Find[*events.InputInjected](b, id)), 1)
	b.RunTurn(id, "t1", harness.Text("hello"))
	before := b.LastSeq(id)
	runtest.WantError(t, "again after it was taken", again(harness.Text("once")), nil)
	runtest.WantError(t, "other content after it was taken", again(harness.Text("twice")), api.ErrDifferent)
	runtest.Equal(t, "last sequence", b.LastSeq(id), before)
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user once", "user hello", "assistant one"})
}

func testInjectUnknown(t *testing.T) {
	b := harness.StartIdle(t)
	_, err := b.Inject(b.Ctx, "nobody", api.InjectRequest{Parts: []events.Part{harness.Text("hello")}})
	runtest.WantError(t, "unknown", err, events.ErrNoSession)
	_, err = b.State(b.Ctx, "nobody")
	runtest.WantError(t, "state afterwards", err, events.ErrNoSession)
	id := b.Open(api.CreateRequest{})
	runtest.WantError(t, "close", b.CloseSession(b.Ctx, id, "done"), nil)
	before := b.LastSeq(id)
	_, err = b.Inject(b.Ctx, id, api.InjectRequest{Parts: []events.Part{harness.Text("hello")}})
	runtest.WantError(t, "closed", err, api.ErrClosed)
	runtest.Equal(t, "last sequence", b.LastSeq(id), before)
}

func testInjectBoundary(t *testing.T) {
	b, id := interrupted(t, api.InjectRequest{Parts: []events.Part{harness.Text("also")}, Boundary: events.BoundaryBeforeCompletion},
		harness.Reply(harness.Call("k", "busy", "{}")), harness.Reply(harness.Text("one")), harness.Reply(harness.Text("two")))
	b.StartWorker(b.Bus)
	runtest.Equal(t, "text", b.RunTurn(id, "t1", harness.Text("hello")).Text, "two")
	shown := []string{"user hello", "assistant k:busy{}", "user k=ok"}
	runtest.EqualLists(t, "prompt after work", b.Model.Prompt(1), shown)
	runtest.EqualLists(t, "prompt after the answer", b.Model.Prompt(2), append(shown, "assistant one", "user also"))
	runtest.EqualLists(t, "accepted", accepted(b, id), []string{"before_completion [i1]"})
}

// testInjectLate injects an input during the hooks after the turn, when the rest of the turn is recorded: the
// input does not enter this turn.
func testInjectLate(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Text("one")), harness.Reply(harness.Text("two")))
	id := events.SessionID("s")
	b.StartNode(harness.PluginOf("late", func(r *plugin.Registrar) {
		r.AfterTurn(func(_ context.Context, in plugin.TurnResultContext) ([]plugin.Directive, error) {
			if in.Turn == "t1" {
				b.AwaitState(id, "last checkpoint", func(s *projector.State) bool { return s.Turn() != nil && s.Turn().Checkpoint == events.AtEnd })
				inject(b, id, "i1", "late")
			}
			return nil, nil
		})
	}))
	b.Open(api.CreateRequest{ID: id})
	r := b.RunTurn(id, "t1", harness.Text("hello"))
	runtest.Equal(t, "end", r.End, events.EndFinished)
	runtest.Equal(t, "text", r.Text, "one")
	runtest.Equal(t, "inputs after the turn", len(b.StateOf(id).Inputs), 1)
	b.RunTurn(id, "t2", harness.Text("go on"))
	runtest.EqualLists(t, "next prompt", b.Model.Prompt(1), []string{"user hello", "assistant one", "user late", "user go on"})
	runtest.EqualLists(t, "accepted", accepted(b, id), []string{"start [i1]"})
}

func testInjectMany(t *testing.T) {
	b := harness.Start(t, harness.Reply(harness.Text("one")), harness.Reply(harness.Text("two")))
	id := b.Open(api.CreateRequest{})
	var want []string
	for i := range 65 {
		inject(b, id, events.InputID(fmt.Sprintf("i%d", i)), fmt.Sprint(i))
		want = append(want, fmt.Sprint("user ", i))
	}
	b.RunTurn(id, "t1", harness.Text("go"))
	var took []int
	for _, p := range harness.Find[*events.InputAccepted](b, id) {
		took = append(took, len(p.Inputs))
	}
	runtest.EqualLists(t, "taken", took, []int{64, 1})
	runtest.EqualLists(t, "first prompt", b.Model.Prompt(0), append(want[:64:64], "user go"))
	runtest.EqualLists(t, "second prompt", b.Model.Prompt(1), append(want[:64:64], "user go", "assistant one", want[64]))
}

// testInjectTakeover kills a worker during the model call that has the input, and has another worker notice that
// its turn was taken over.
func testInjectTakeover(t *testing.T) {
	started := make(chan struct{})
	b, id := interrupted(t, api.InjectRequest{Parts: []events.Part{harness.Text("also")}},
		harness.Reply(harness.Call("k", "busy", "{}")), harness.Hang(started), harness.Reply(harness.Text("done")))
	kill := process(b, "", nil)
	b.StartTurn(id, "t1", harness.Text("hello"))
	harness.Receive(b, "the start", started)
	kill()
	b.StartWorker(b.Bus)
	runtest.Equal(t, "attempts", b.AwaitTurn(id, "t1").Attempts, 2)
	runtest.EqualLists(t, "prompt", b.Model.Prompt(2), []string{"user hello", "assistant k:busy{}", "user k=ok", "user also"})
	runtest.EqualLists(t, "accepted", accepted(b, id), []string{"after_work [i1]"})
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user hello", "assistant k:busy{}", "user k=ok", "user also", "assistant done"})

	old := harness.StartIdle(t)
	id = old.Open(api.CreateRequest{})
	old.Model.Script = []harness.Step{harness.DoFirst(func() {
		inject(old, id, "i1", "also") // the old worker is about to take it with its reply
		old.CommitToTurn(id, &events.TurnStarted{Attempt: 2, Worker: "other"})
	}, harness.Reply(harness.Text("too late"))), harness.Reply(harness.Text("one")), harness.Reply(harness.Text("two"))}
	old.StartWorker(old.Bus)
	runtest.Equal(t, "text", old.RunTurn(id, "t1", harness.Text("hello")).Text, "two")
	runtest.EqualLists(t, "messages", old.Messages(id), []string{"user hello", "assistant one", "user also", "assistant two"})
	runtest.EqualLists(t, "accepted", accepted(old, id), []string{"before_completion [i1]"})
}

func testInjectCancel(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	b := harness.StartIdle(t, harness.DoFirst(func() { close(started); <-release }, harness.Reply(harness.Text("one"))))
	id := b.Open(api.CreateRequest{})
	cancel := func(inputs ...events.InputID) []api.InputReceipt {
		t.Helper()
		got, err := b.OtherHost().CancelInputs(b.Ctx, id, inputs...)
		runtest.WantError(t, "cancel", err, nil)
		return got
	}
	inject(b, id, "i1", "first")
	inject(b, id, "i2", "never")
	runtest.EqualLists(t, "pending", cancel("i2", "i9"), []api.InputReceipt{api.InputCancelled, api.InputNotFound})
	runtest.EqualLists(t, "again", cancel("i2"), []api.InputReceipt{api.InputAlreadyCancelled})
	b.StartWorker(b.Bus)
	b.StartTurn(id, "t1", harness.Text("hello"))
	harness.Receive(b, "the start", started)
	for i := 3; i <= 6; i++ {
		inject(b, id, events.InputID(fmt.Sprint("i", i)), fmt.Sprint(i))
	}
	before := b.LastSeq(id)
	runtest.EqualLists(t, "claimed, pending", cancel("i1", "i4", "i3", "i4"), []api.InputReceipt{
		api.InputAlreadyClaimed, api.InputCancelled, api.InputCancelled, api.InputCancelled,
	})
	runtest.Equal(t, "commits of a cancel of many", b.LastSeq(id), before+1)
	receipt, removed, err := b.CancelInputsFrom(b.Ctx, id, "i5")
	runtest.WantError(t, "cancel from", err, nil)
	runtest.Equal(t, "receipt", receipt, api.InputCancelled)
	runtest.EqualLists(t, "suffix", removed, []events.InputID{"i5", "i6"})
	receipt, removed, err = b.CancelInputsFrom(b.Ctx, id, "i1")
	runtest.WantError(t, "cancel from a claimed one", err, nil)
	runtest.Equal(t, "receipt", receipt, api.InputAlreadyClaimed)
	runtest.Equal(t, "suffix", len(removed), 0)
	close(release)
	b.AwaitState(id, "end", (*projector.State).Idle)
	runtest.EqualLists(t, "completed", cancel("i1"), []api.InputReceipt{api.InputAlreadyCompleted})
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user first", "user hello", "assistant one"})
	_, err = b.CancelInputs(b.Ctx, "nobody", "i1")
	runtest.WantError(t, "unknown session", err, events.ErrNoSession)
}
