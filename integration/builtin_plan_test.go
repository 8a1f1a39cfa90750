package integration

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/planmode"
	"github.com/lash-go/lash/workers/builtin/todo"
)

// readWrite has a tool that reads and one that writes.
func readWrite() plugin.Factory {
	return plugin.Func("rw", func(r *plugin.Registrar) error {
		say := func(text string) func(context.Context, plugin.Call, struct{}) (string, error) {
			return func(context.Context, plugin.Call, struct{}) (string, error) { return text, nil }
		}
		plugin.AddTool(r, plugin.Tool{Name: "read", Effects: events.EffectsNone}, say("was read"))
		plugin.AddTool(r, plugin.Tool{Name: "write"}, say("was written"))
		return nil
	})
}

// offered are the tools of model call n, from 0.
func (m *model) offered(n int) []string {
	var names []string
	for _, tool := range m.asked()[n].Tools {
		names = append(names, tool.Name)
	}
	return names
}

// emitted are the events that hooks showed, as text.
func (b *bundle) emitted(id events.SessionID) []string {
	b.t.Helper()
	var list []string
	for _, ran := range find[*events.HookRan](b, id) {
		for _, d := range ran.Decisions {
			if d.Kind == events.DirectiveEmitEvents {
				list = append(list, string(d.Body))
			}
		}
	}
	return list
}

func (b *bundle) act(id events.SessionID, action, args string) plugin.Result {
	b.t.Helper()
	r, err := b.InvokeAction(b.ctx, id, action, json.RawMessage(args))
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// approved answers the one question of a session, and waits for the end of the turn.
func (b *bundle) approved(id events.SessionID, turn events.TurnID, granted bool) events.ToolApprovalAsked {
	b.t.Helper()
	asked := b.await(id, "question", hasAsk).Turn().Asks[0].ToolApprovalAsked
	if err := b.Approve(b.ctx, id, events.ToolApprovalGiven{Effect: asked.Effect, Granted: granted, Reason: "says the test"}); err != nil {
		b.t.Fatal(err)
	}
	b.ended(id, turn)
	return asked
}

// TestPlanMode enters the mode by the action, is refused what writes, and
// leaves by the tool, once its plan is approved.
func TestPlanMode(t *testing.T) {
	t.Parallel()
	b := setupIdle(t,
		reply(call("c1", "read", "{}"), call("c2", "write", "{}")), reply(text("thinking")),
		reply(call("c3", "exit_plan_mode", `{"plan":"write it"}`)), reply(call("c4", "write", "{}")), reply(text("done")),
	)
	b.node(readWrite(), planmode.Factory(planmode.Options{}))
	id := b.open(api.CreateRequest{})
	if got := b.act(id, "plan_mode.set", `{"on":true}`).Text; got != `{"on":true,"told":false}` {
		t.Errorf("action: got %s", got)
	}
	b.run(id, "t1", text("look"))
	equalLists(t, "offered", b.model.offered(0), []string{"exit_plan_mode", "read"})
	prompt := b.model.prompt(0)
	if !strings.HasPrefix(prompt[0], "system ") || !strings.Contains(prompt[0], "change nothing") || !strings.HasPrefix(prompt[2], "system Plan mode is on.") {
		t.Errorf("prompt: got %q, want the contribution and the note", prompt)
	}
	results := b.model.prompt(1)
	if got, want := results[len(results)-1], "user c1=was read c2=[failed] tool \"write\" is not available in this session"; !strings.HasPrefix(got, want) {
		t.Errorf("results: got %q, want %q", got, want)
	}
	b.submit(id, "t2", text("go on"))
	asked := b.approved(id, "t2", true)
	equal(t, "asked by", asked.Plugin, "plan_mode")
	notes := slices.DeleteFunc(b.messages(id), func(line string) bool { return !strings.HasPrefix(line, "system ") })
	if len(notes) != 2 || !strings.HasPrefix(notes[1], "system Plan mode is off.") {
		t.Errorf("notes: got %q, want one of each mode", notes)
	}
	equalLists(t, "offered after", b.model.offered(3), []string{"read", "write"})
	if last := b.model.prompt(4); !strings.HasSuffix(strings.Join(last, "\n"), "user c4=was written") {
		t.Errorf("prompt: got %q, want the write's result last", last)
	}
	equalLists(t, "events", b.emitted(id), []string{`[{"on":true,"type":"plan_mode"}]`, `[{"on":false,"type":"plan_mode"}]`})
}

// TestPlanModeKept has another node go on in plan mode with the session's own exceptions, and a plan that is refused.
func TestPlanModeKept(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(call("c1", "write", "{}")), reply(call("c2", "exit_plan_mode", `{"plan":"none"}`)), reply(text("sorry")))
	first := b.node(readWrite(), planmode.Factory(planmode.Options{}))
	options, err := plugin.OptionsOf(planmode.ID, planmode.Options{Allow: []string{"write"}})
	if err != nil {
		t.Fatal(err)
	}
	id := b.open(api.CreateRequest{Options: options})
	b.act(id, "plan_mode.set", `{"on":true}`)
	first.Stop(b.ctx)
	b.node(readWrite(), planmode.Factory(planmode.Options{}))
	b.submit(id, "t1", text("look"))
	b.approved(id, "t1", false)
	equalLists(t, "offered", b.model.offered(0), []string{"exit_plan_mode", "read", "write"})
	if got := b.messages(id); got[3] != "user c1=was written" || got[5] != "user c2=[failed] the call was not approved: says the test" {
		t.Errorf("messages: got %q, want a write and a refusal", got)
	}
	equal(t, "mode", string(b.state(id).Plugin(planmode.ID).State), `{"on":true,"told":true}`)
}

// TestTodo replaces the list, shows it, and reminds the next turn of what is open.
func TestTodo(t *testing.T) {
	t.Parallel()
	b := setupIdle(t,
		reply(call("c1", "update_plan", `{"items":[{"text":"look","status":"completed"},{"text":"leap","status":"in_progress"}]}`)),
		reply(call("c2", "update_plan", `{"items":[{"text":"look","status":"maybe"}]}`)), reply(text("done")), reply(text("again")),
	)
	b.node(todo.Factory())
	id := b.open(api.CreateRequest{})
	b.run(id, "t1", text("go"))
	b.run(id, "t2", text("and now?"))
	got := b.messages(id)
	equal(t, "result", got[2], "user c1=1 of 2 completed")
	if !strings.HasPrefix(got[4], `user c2=[failed] items[0]: status "maybe"`) {
		t.Errorf("invalid: got %q, want a refusal", got[4])
	}
	equalLists(t, "events", b.emitted(id), []string{`[{"type":"todo","items":[{"text":"look","status":"completed"},{"text":"leap","status":"in_progress"}]}]`})
	if prompt := b.model.prompt(3)[0]; !strings.Contains(prompt, "leap (in_progress)") || strings.Contains(prompt, "look") {
		t.Errorf("prompt: got %q, want the open item", prompt)
	}
}
