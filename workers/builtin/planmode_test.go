package builtin_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/builtintest"
	"github.com/lash-go/lash/workers/builtin/planmode"
)

// tools are the session's tools.
func tools() []events.ToolEntry {
	return []events.ToolEntry{
		{Name: "look", Effects: events.EffectsNone},
		{Name: "write", Effects: events.EffectsIdempotent},
		{Name: "run", Effects: events.EffectsNonIdempotent},
		{Name: "note", Effects: events.EffectsIdempotent},
	}
}

// offered is a plugin with these tools.
func offered() plugin.Factory {
	return plugin.Func("offered", func(r *plugin.Registrar) error {
		for _, tool := range tools() {
			plugin.AddTool(r, plugin.Tool{Name: tool.Name, Effects: tool.Effects}, func(context.Context, plugin.Call, struct{}) (string, error) { return "", nil })
		}
		return nil
	})
}

// host has the catalogue of the session.
type planmodeHost struct{ plugin.Absent }

func (planmodeHost) SnapshotCurrent(context.Context) (*projector.State, error) {
	s := projector.New("s")
	s.Catalog.Tools = tools()
	return s, nil
}

func planmodeBuild(t *testing.T) *plugin.Stack {
	t.Helper()
	return builtintest.Build(t, plugin.BuildContext{}, offered(), planmode.Factory(planmode.Options{Allow: []string{"note"}}))
}

func set(t *testing.T, s *plugin.Stack, on string) string {
	t.Helper()
	got, err := s.InvokeAction(t.Context(), "plan_mode.set", json.RawMessage(`{"on":`+on+`}`), "s", true, plugin.Absent{})
	runtest.NoError(t, err)
	return got.Text
}

// TestGuard: what the mode does to a call of each tool.
func TestGuard(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ on, off events.DirectiveKind }{
		"look": {}, "note": {}, "write": {on: events.DirectiveAbort}, "run": {on: events.DirectiveAbort},
		"unknown": {on: events.DirectiveAbort}, "exit_plan_mode": {on: events.DirectiveAskApproval},
	} {
		s := planmodeBuild(t)
		for on, want := range map[string]events.DirectiveKind{"true": c.on, "false": c.off} {
			set(t, s, on)
			list, err := s.BeforeToolCall(t.Context(), plugin.ToolContext{Tool: name, Host: planmodeHost{}})
			var got events.DirectiveKind
			if len(list) > 0 {
				got = list[0].Value.Kind
			}
			if err != nil || got != want || len(list) > 1 {
				t.Errorf("%s, mode on %s: got %q, %v, want %q", name, on, got, err, want)
			}
			if want == events.DirectiveAbort && !strings.Contains(list[0].Value.Message, name+" changes things") {
				t.Errorf("%s: got the reason %q, want it to name the tool", name, list[0].Value.Message)
			}
		}
	}
}

// TestCatalog: the mode turns off what it refuses, and its own tool is there only while it is on.
func TestCatalog(t *testing.T) {
	t.Parallel()
	s := planmodeBuild(t)
	for on, want := range map[string]string{"true": "exit_plan_mode look note", "false": "look note run write"} {
		set(t, s, on)
		entry, err := s.Catalog(&projector.Catalog{})
		runtest.NoError(t, err)
		var got []string
		for i := range entry.Tools {
			if entry.Tools[i].Effective() != events.AvailOff {
				got = append(got, entry.Tools[i].Name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("mode on %s: got the tools %v, want %s", on, got, want)
		}
	}
}

// TestAnnounced: the model reads of each change once, also of one at a checkpoint, and of none that was taken back.
func TestAnnounced(t *testing.T) {
	t.Parallel()
	s := planmodeBuild(t)
	turn := func() ([]plugin.Owned[plugin.Directive], error) {
		return s.BeforeTurn(t.Context(), plugin.TurnContext{})
	}
	checkpoint := func() ([]plugin.Owned[plugin.Directive], error) {
		return s.AtCheckpoint(t.Context(), plugin.CheckpointContext{At: events.AtAfterWork})
	}
	for i, step := range []struct {
		on   string
		at   func() ([]plugin.Owned[plugin.Directive], error)
		want string
	}{
		{"", turn, ""},
		{"true", turn, "Plan mode is on."},
		{"", turn, ""},
		{"", checkpoint, ""},
		{"false", checkpoint, "Plan mode is off."},
		{"", turn, ""},
		{"true", func() ([]plugin.Owned[plugin.Directive], error) { return nil, nil }, ""},
		{"false", turn, ""},
	} {
		if step.on != "" {
			set(t, s, step.on)
		}
		list, err := step.at()
		said, event := "", ""
		for _, d := range list {
			for _, m := range d.Value.Messages {
				said += m.Text()
			}
			for _, e := range d.Value.Events {
				event += string(e)
			}
		}
		if err != nil || !strings.HasPrefix(said, step.want) || (said == "") != (step.want == "") || (event == "") != (step.want == "") {
			t.Errorf("step %d: got %q with the event %s, %v, want %q", i, said, event, err, step.want)
		}
	}
}

// TestExit leaves the mode. The prompt says that it is on as long as it is.
func TestExit(t *testing.T) {
	t.Parallel()
	s := planmodeBuild(t)
	runtest.Equal(t, "action", set(t, s, "true"), `{"on":true,"told":false}`)
	for _, want := range []int{1, 0} {
		list, err := s.Contributions(t.Context(), plugin.PromptContext{}, nil)
		if err != nil || len(list) != want {
			t.Errorf("got %d contributions, %v, want %d", len(list), err, want)
		}
		_, err = builtintest.Call(t, s, plugin.Call{}, "exit_plan_mode", `{"plan":"1. write"}`)
		runtest.NoError(t, err)
	}
}
