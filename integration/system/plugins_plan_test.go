package system

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/planmode"
	"github.com/lash-go/lash/workers/builtin/todo"
)

// readWrite is a plugin with a tool that reads and one that writes.
func readWrite() plugin.Factory {
	return plugin.Func("rw", func(r *plugin.Registrar) error {
		tool := func(text string) func(context.Context, plugin.Call, struct{}) (string, error) {
			return func(context.Context, plugin.Call, struct{}) (string, error) { return text, nil }
		}
		plugin.AddTool(r, plugin.Tool{Name: "read", Effects: events.EffectsNone}, tool("was read"))
		plugin.AddTool(r, plugin.Tool{Name: "write"}, tool("was written"))
		return nil
	})
}

// emitted lists the events of hooks, as text.
func emitted(b *harness.System, id events.SessionID) []string {
	b.T.Helper()
	var list []string
	for _, ran := range harness.Find[*events.HookRan](b, id) {
		for _, d := range ran.Decisions {
			if d.Kind == events.DirectiveEmitEvents {
				list = append(list, string(d.Body))
			}
		}
	}
	return list
}

// approved answers the only approval of a session, and waits for the end of the turn.
func approved(b *harness.System, id events.SessionID, turn events.TurnID, granted bool) events.ToolApprovalAsked {
	b.T.Helper()
	question := b.AwaitState(id, "question", harness.HasAsk).Turn().Asks[0].ToolApprovalAsked
	runtest.NoError(b.T, b.Approve(b.Ctx, id, events.ToolApprovalGiven{Effect: question.Effect, Granted: granted, Reason: "says the test"}))
	b.AwaitTurn(id, turn)
	return question
}

// TestSmokePlanMode enters plan mode with the action, has writes refused, and leaves with the tool, after the approval
// of its plan.
func TestSmokePlanMode(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t,
		harness.Reply(harness.Call("c1", "read", "{}"), harness.Call("c2", "write", "{}")), harness.Reply(harness.Text("thinking")),
		harness.Reply(harness.Call("c3", "exit_plan_mode", `{"plan":"write it"}`)), harness.Reply(harness.Call("c4", "write", "{}")), harness.Reply(harness.Text("done")),
	)
	b.StartNode(readWrite(), planmode.Factory(planmode.Options{}))
	id := b.Open(api.CreateRequest{})
	if got := b.Act(id, "plan_mode.set", `{"on":true}`).Text; got != `{"on":true,"told":false}` {
		t.Errorf("action: got %s", got)
	}
	b.RunTurn(id, "t1", harness.Text("look"))
	runtest.EqualLists(t, "offered", b.Model.Offered(0), []string{"exit_plan_mode", "read"})
	prompt := b.Model.Prompt(0)
	if !strings.HasPrefix(prompt[0], "system ") || !strings.Contains(prompt[0], "change nothing") || !strings.HasPrefix(prompt[2], "system Plan mode is on.") {
		t.Errorf("prompt: got %q, want the contribution and the note", prompt)
	}
	results := b.Model.Prompt(1)
	if got, want := results[len(results)-1], "user c1=was read c2=[failed] tool \"write\" is not available in this session"; !strings.HasPrefix(got, want) {
		t.Errorf("results: got %q, want %q", got, want)
	}
	b.StartTurn(id, "t2", harness.Text("go on"))
	question := approved(b, id, "t2", true)
	runtest.Equal(t, "asked by", question.Plugin, "plan_mode")
	notes := slices.DeleteFunc(b.Messages(id), func(line string) bool { return !strings.HasPrefix(line, "system ") })
	if len(notes) != 2 || !strings.HasPrefix(notes[1], "system Plan mode is off.") {
		t.Errorf("notes: got %q, want one of each mode", notes)
	}
	runtest.EqualLists(t, "offered after", b.Model.Offered(3), []string{"read", "write"})
	if last := b.Model.Prompt(4); !strings.HasSuffix(strings.Join(last, "\n"), "user c4=was written") {
		t.Errorf("prompt: got %q, want the write's result last", last)
	}
	runtest.EqualLists(t, "events", emitted(b, id), []string{`[{"on":true,"type":"plan_mode"}]`, `[{"on":false,"type":"plan_mode"}]`})
}

// TestPlanModeKept continues in plan mode on another node, with the exceptions of the session, and a plan that is
// refused.
func TestPlanModeKept(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("c1", "write", "{}")), harness.Reply(harness.Call("c2", "exit_plan_mode", `{"plan":"none"}`)), harness.Reply(harness.Text("sorry")))
	first := b.StartNode(readWrite(), planmode.Factory(planmode.Options{}))
	options, err := plugin.OptionsOf(planmode.ID, planmode.Options{Allow: []string{"write"}})
	runtest.NoError(t, err)
	id := b.Open(api.CreateRequest{Options: options})
	b.Act(id, "plan_mode.set", `{"on":true}`)
	first.Stop(b.Ctx)
	b.StartNode(readWrite(), planmode.Factory(planmode.Options{}))
	b.StartTurn(id, "t1", harness.Text("look"))
	approved(b, id, "t1", false)
	runtest.EqualLists(t, "offered", b.Model.Offered(0), []string{"exit_plan_mode", "read", "write"})
	if got := b.Messages(id); got[3] != "user c1=was written" || got[5] != "user c2=[failed] the call was not approved: says the test" {
		t.Errorf("messages: got %q, want a write and a refusal", got)
	}
	runtest.Equal(t, "mode", string(b.StateOf(id).Plugin(planmode.ID).State), `{"on":true,"told":true}`)
}

// TestSmokeTodo replaces the list, shows it, and reminds the next turn of open items.
func TestSmokeTodo(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t,
		harness.Reply(harness.Call("c1", "update_plan", `{"items":[{"text":"look","status":"completed"},{"text":"leap","status":"in_progress"}]}`)),
		harness.Reply(harness.Call("c2", "update_plan", `{"items":[{"text":"look","status":"maybe"}]}`)), harness.Reply(harness.Text("done")), harness.Reply(harness.Text("again")),
	)
	b.StartNode(todo.Factory())
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("go"))
	b.RunTurn(id, "t2", harness.Text("and now?"))
	got := b.Messages(id)
	runtest.Equal(t, "result", got[2], "user c1=1 of 2 completed")
	if !strings.HasPrefix(got[4], `user c2=[failed] items[0]: status "maybe"`) {
		t.Errorf("invalid: got %q, want a refusal", got[4])
	}
	runtest.EqualLists(t, "events", emitted(b, id), []string{`[{"type":"todo","items":[{"text":"look","status":"completed"},{"text":"leap","status":"in_progress"}]}]`})
	if prompt := b.Model.Prompt(3)[0]; !strings.Contains(prompt, "leap (in_progress)") || strings.Contains(prompt, "look") {
		t.Errorf("prompt: got %q, want the open item", prompt)
	}
}
