package plugin_test

import (
	"context"
	"strings"
	"testing"

	"github.com/lash-go/lash/session/plugin"
)

// executor is a code executor that no test calls.
type executor struct{ plugin.CodeExecutor }

// TestSlotsTwice: a second registration of a singleton is refused, and the error names both plugins.
func TestSlotsTwice(t *testing.T) {
	t.Parallel()
	tool := func(context.Context, plugin.Call, struct{}) (string, error) { return "", nil }
	for name, register := range map[string]func(*plugin.Registrar){
		"protocol session": func(r *plugin.Registrar) { r.Protocol(silent{}) },
		"protocol driver":  func(r *plugin.Registrar) { r.Driver(silent{}) },
		"code executor":    func(r *plugin.Registrar) { r.CodeExecutor(executor{}) },
		"prose projector":  func(r *plugin.Registrar) { r.ProjectProse(strings.ToUpper) },
		"result projector": func(r *plugin.Registrar) {
			r.ProjectToolResult(func(context.Context, plugin.ToolResultContext) (plugin.View, error) { return plugin.View{}, nil })
		},
		"action": func(r *plugin.Registrar) { r.Action(plugin.ActionDef{Name: "act"}, nil) },
		"tool":   func(r *plugin.Registrar) { plugin.AddTool(r, plugin.Tool{Name: "add"}, tool) },
	} {
		once := func(r *plugin.Registrar) error { register(r); return nil }
		builder, err := plugin.NewBuilder(plugin.BuilderConfig{Factories: []plugin.Factory{plugin.Func("one", once), plugin.Func("two", once)}})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // a refused stack is not live
			_, err = builder.BuildStack(t.Context(), plugin.BuildContext{Session: "s"}, nil)
			said := ""
			if err != nil {
				said = err.Error()
			}
			if !strings.Contains(said, "one") || !strings.Contains(said, "two") || !strings.Contains(said, strings.Fields(name)[0]) || strings.Contains(said, "live") {
				t.Errorf("%s: got %v, want an error that names it, one and two", name, err)
			}
		}
	}
}

// TestSlotsEmpty: optional registrations may be missing.
func TestSlotsEmpty(t *testing.T) {
	t.Parallel()
	s := stack(t)
	if s.CodeExecutor() != nil {
		t.Errorf("executor: got %v, want none", s.CodeExecutor())
	}
	if got := s.ProjectProse("as it is"); got != "as it is" {
		t.Errorf("prose: got %q, want it as it is", got)
	}
	if _, projected := s.ProjectToolResult(t.Context(), plugin.ToolResultContext{}); projected {
		t.Error("result: got it projected, want the usual one")
	}
	if len(s.Points()) != 0 {
		t.Errorf("points: got %v, want none", s.Points())
	}
	for point, ask := range points {
		if list, err := ask(t.Context(), s); err != nil || len(list) != 0 {
			t.Errorf("%s: got %v, %v, want nothing", point, list, err)
		}
	}
}
