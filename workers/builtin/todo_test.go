package builtin_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/builtintest"
	"github.com/lash-go/lash/workers/builtin/todo"
)

const plan = `{"items":[{"text":"look","status":"completed"},{"text":"write","status":"in_progress"},{"text":"test","status":"pending"}]}`

// TestUpdate replaces the list: the prompt has the open items, and hosts receive all.
func TestUpdate(t *testing.T) {
	t.Parallel()
	s := builtintest.Build(t, plugin.BuildContext{}, todo.Factory())
	if got := contributed(t, s); got != "" {
		t.Errorf("before the first plan: got %q in the prompt, want nothing", got)
	}
	got, err := builtintest.Call(t, s, plugin.Call{}, "update_plan", plan)
	if err != nil || got.Text != "1 of 3 completed" {
		t.Errorf("got %q, %v, want 1 of 3 completed", got.Text, err)
	}
	if got, want := contributed(t, s), "- write (in_progress)\n- test (pending)"; got != want {
		t.Errorf("prompt: got %q, want %q", got, want)
	}
	for outcome, want := range map[events.Outcome]int{events.OutcomeSuccess: 1, events.OutcomeFailure: 0} {
		list, err := s.AfterToolCall(t.Context(), plugin.ToolResultContext{Tool: "update_plan", Result: plugin.Result{Outcome: outcome}})
		if err != nil || len(list) != want {
			t.Fatalf("outcome %q: got %d events, %v, want %d", outcome, len(list), err, want)
		}
		if want == 1 && string(list[0].Value.Events[0]) != `{"type":"todo",`+plan[1:] {
			t.Errorf("event: got %s, want the list", list[0].Value.Events[0])
		}
	}
	if list, err := s.AfterToolCall(t.Context(), plugin.ToolResultContext{Tool: "other"}); err != nil || len(list) != 0 {
		t.Errorf("after another tool: got %d events, %v, want none", len(list), err)
	}
	if _, err := builtintest.Call(t, s, plugin.Call{}, "update_plan", `{"items":[{"text":"all","status":"completed"}]}`); err != nil || contributed(t, s) != "" {
		t.Errorf("all completed: got %q in the prompt, %v, want nothing", contributed(t, s), err)
	}
}

func contributed(t *testing.T, s *plugin.Stack) (text string) {
	t.Helper()
	list, err := s.Contributions(t.Context(), plugin.PromptContext{}, nil)
	runtest.NoError(t, err)
	for _, c := range list {
		text += c.Content
	}
	return text
}

// TestTodoRefused: a list that is refused leaves the one before it.
func TestTodoRefused(t *testing.T) {
	t.Parallel()
	s := builtintest.Build(t, plugin.BuildContext{}, todo.Factory())
	_, err := builtintest.Call(t, s, plugin.Call{}, "update_plan", plan)
	runtest.NoError(t, err)
	item := func(text, status string) string { return fmt.Sprintf(`{"text":%q,"status":%q}`, text, status) }
	for args, want := range map[string]string{
		item("a", "done"):      `items[0]: status "done", want pending, in_progress or completed`,
		item(" \t", "pending"): "items[0]: text is blank",
		item("a", "in_progress") + "," + item("b", "in_progress"):            "with 2 in progress, want at most 100 with one",
		strings.Repeat(item("a", "pending")+",", 100) + item("b", "pending"): "101 items with 0 in progress, want at most 100",
	} {
		_, err := builtintest.Call(t, s, plugin.Call{}, "update_plan", `{"items":[`+args+`]}`)
		builtintest.Refused(t, args[:min(len(args), 60)], err, plugin.ClassInvalidRequest, want)
	}
	runtest.Contains(t, "after refused lists", contributed(t, s), "write (in_progress)")
	_, err = builtintest.Call(t, s, plugin.Call{}, "update_plan", `{"items":[`+strings.Repeat(item("a", "pending")+",", 99)+item("b", "pending")+`]}`)
	runtest.WantError(t, "100 items", err, nil)
}
