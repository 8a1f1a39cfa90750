package plugin_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// silent is a protocol that does nothing.
type silent struct{ plugin.BaseProtocol }

func (silent) Preamble(plugin.PreambleInput) plugin.Preamble { return plugin.Preamble{} }

func registerSilent(r *plugin.Registrar) error {
	r.Protocol(silent{})
	r.Driver(silent{})
	return nil
}

// stack builds a session's stack with a protocol that does nothing.
func stack(t *testing.T, factories ...plugin.Factory) *plugin.Stack {
	t.Helper()
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: []plugin.Factory{plugin.Func("silent", registerSilent)}, Factories: factories})
	if err != nil {
		t.Fatal(err)
	}
	s, err := builder.BuildStack(t.Context(), plugin.BuildContext{Session: "s"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// everywhere is a plugin that returns the same directives at every point.
func everywhere(id string, list ...plugin.Directive) plugin.Factory {
	return plugin.Func(id, func(r *plugin.Registrar) error {
		r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) { return list, nil })
		r.BeforeModelCall(func(context.Context, plugin.ModelContext) ([]plugin.Directive, error) { return list, nil })
		r.Checkpoint(func(context.Context, plugin.CheckpointContext) ([]plugin.Directive, error) { return list, nil })
		r.AfterTurn(func(context.Context, plugin.TurnResultContext) ([]plugin.Directive, error) { return list, nil })
		r.BeforeToolCall(func(context.Context, plugin.ToolContext) ([]plugin.Directive, error) { return list, nil })
		r.AfterToolCall(func(context.Context, plugin.ToolResultContext) ([]plugin.Directive, error) { return list, nil })
		return nil
	})
}

// points run a stack's hooks at each point that takes directives.
var points = map[events.HookPoint]func(context.Context, *plugin.Stack) ([]plugin.Owned[plugin.Directive], error){
	events.PointBeforeTurn: func(ctx context.Context, s *plugin.Stack) ([]plugin.Owned[plugin.Directive], error) {
		return s.BeforeTurn(ctx, plugin.TurnContext{})
	},
	events.PointBeforeModel: func(ctx context.Context, s *plugin.Stack) ([]plugin.Owned[plugin.Directive], error) {
		return s.BeforeModelCall(ctx, plugin.ModelContext{})
	},
	events.PointCheckpoint: func(ctx context.Context, s *plugin.Stack) ([]plugin.Owned[plugin.Directive], error) {
		return s.AtCheckpoint(ctx, plugin.CheckpointContext{})
	},
	events.PointAfterTurn: func(ctx context.Context, s *plugin.Stack) ([]plugin.Owned[plugin.Directive], error) {
		return s.AfterTurn(ctx, plugin.TurnResultContext{})
	},
	events.PointBeforeTool: func(ctx context.Context, s *plugin.Stack) ([]plugin.Owned[plugin.Directive], error) {
		return s.BeforeToolCall(ctx, plugin.ToolContext{})
	},
	events.PointAfterTool: func(ctx context.Context, s *plugin.Stack) ([]plugin.Owned[plugin.Directive], error) {
		return s.AfterToolCall(ctx, plugin.ToolResultContext{})
	},
}

// matrix lists the points that allow a directive. All other points refuse it.
var matrix = []struct {
	directive plugin.Directive
	allowed   []events.HookPoint
}{
	{plugin.Abort("x", "no"), []events.HookPoint{events.PointBeforeTurn, events.PointBeforeModel, events.PointCheckpoint, events.PointBeforeTool, events.PointAfterTool}},
	{plugin.Enqueue(plugin.Say(events.RoleUser, "hi")), []events.HookPoint{events.PointBeforeTurn, events.PointCheckpoint, events.PointAfterTurn, events.PointAfterTool}},
	{plugin.CreateSession(api.CreateRequest{}), []events.HookPoint{events.PointBeforeTurn, events.PointBeforeModel, events.PointCheckpoint, events.PointAfterTurn, events.PointBeforeTool, events.PointAfterTool}},
	{plugin.Directive{Kind: "handoff_session"}, nil},
	{plugin.Directive{}, nil},
	{plugin.ReplaceArgs(json.RawMessage(`{}`)), []events.HookPoint{events.PointBeforeTool}},
	{plugin.ShortCircuit(plugin.Result{}), []events.HookPoint{events.PointBeforeTool, events.PointAfterTool}},
	{plugin.Emit(json.RawMessage(`1`)), []events.HookPoint{events.PointBeforeTurn, events.PointBeforeModel, events.PointCheckpoint, events.PointAfterTurn, events.PointBeforeTool, events.PointAfterTool}},
	{plugin.Trace("x", nil), []events.HookPoint{events.PointBeforeTurn, events.PointBeforeModel, events.PointCheckpoint, events.PointAfterTurn, events.PointBeforeTool, events.PointAfterTool}},
	{plugin.Ask("really?"), []events.HookPoint{events.PointBeforeTool}},
	{plugin.JudgePlaces(map[string]string{"path": "a"}), []events.HookPoint{events.PointBeforeTool}},
	{plugin.Contribute(), []events.HookPoint{events.PointBeforeModel}},
	{plugin.SystemPrompt("Be brief."), []events.HookPoint{events.PointBeforeModel}},
	{plugin.SwitchFrame(events.FrameSwitch{Frame: "f2", Task: "go on"}), []events.HookPoint{events.PointBeforeModel}},
}

// TestDirectiveMatrix returns every directive at every point, between allowed ones. Either the list contains it, or
// the list is refused.
func TestDirectiveMatrix(t *testing.T) {
	t.Parallel()
	if len(points) != 6 {
		t.Fatalf("points: got %d, want 6", len(points))
	}
	trace := plugin.Trace("beside", nil)
	for _, tt := range matrix {
		s := stack(t, everywhere("first", trace), everywhere("second", trace, tt.directive, trace), everywhere("third", trace))
		for point, ask := range points {
			allowed := false
			for _, p := range tt.allowed {
				allowed = allowed || p == point
			}
			list, err := ask(t.Context(), s)
			switch {
			case allowed && (err != nil || len(list) != 5 || list[2].Plugin != "second" || list[2].Value.Kind != tt.directive.Kind):
				t.Errorf("%q at %s: got %+v, %v, want it among five", tt.directive.Kind, point, list, err)
			case !allowed:
				refused(t, string(tt.directive.Kind)+" at "+string(point), list, err)
			}
		}
	}
}

// refused fails the test unless the whole list is refused because of the second plugin.
func refused(t *testing.T, what string, list []plugin.Owned[plugin.Directive], err error) {
	t.Helper()
	var failed *plugin.HookError
	if !errors.As(err, &failed) || failed.Plugin != "second" || failed.Panic || failed.Hung {
		t.Errorf("%s: got error %v, want one of plugin second", what, err)
	}
	if len(list) != 0 {
		t.Errorf("%s: got %d directives, want none of the list", what, len(list))
	}
}

// TestDirectiveGarbage: directives without their required values are refused at points that allow them.
func TestDirectiveGarbage(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]plugin.Directive{
		"create":      {Kind: events.DirectiveCreate},
		"short":       {Kind: events.DirectiveShortCircuit},
		"short_value": plugin.ShortCircuit(plugin.Result{Outcome: "sort_of"}),
		"args":        plugin.ReplaceArgs(json.RawMessage(`{`)),
		"no_args":     plugin.ReplaceArgs(nil),
		"event":       plugin.Emit(json.RawMessage(`1`), json.RawMessage(`{"a":`)),
		"no_event":    plugin.Emit(nil),
		"payload":     plugin.Trace("x", json.RawMessage(`no`)),
		"places":      {Kind: events.DirectiveJudgePlaces, Payload: json.RawMessage(`{"path":1}`)},
		"slot":        plugin.Contribute(events.Contribution{Slot: "attic", Content: "x"}),
		"minimum":     plugin.Contribute(events.Contribution{Slot: events.SlotIntro, Minimum: "most", Content: "x"}),
		"no_prompt":   plugin.SystemPrompt(" \n"),
		"long_prompt": plugin.SystemPrompt(strings.Repeat("x", events.MaxInstructionsBytes+1)),
		"no_switch":   {Kind: events.DirectiveSwitch},
		"no_frame":    plugin.SwitchFrame(events.FrameSwitch{Task: "go on"}),
		"no_node":     plugin.SwitchFrame(events.FrameSwitch{Frame: "f2", Task: "go on", Nodes: []events.NewNode{{}}}),
		"message":     plugin.Enqueue(events.Message{Role: "stranger"}),
		"part":        plugin.Enqueue(events.Message{Role: events.RoleUser, Parts: []events.Part{{Kind: "smell"}}}),
	} {
		s := stack(t, everywhere("first", plugin.Trace("x", nil)), everywhere("second", d))
		for point, ask := range points {
			list, err := ask(t.Context(), s)
			refused(t, name+" at "+string(point), list, err)
		}
	}
}

// TestHookOrder: hooks run in stack order, and all run before the first directive is checked.
func TestHookOrder(t *testing.T) {
	t.Parallel()
	s := stack(t, everywhere("c", plugin.Trace("1", nil), plugin.Trace("2", nil)), everywhere("a", plugin.Trace("3", nil)), everywhere("b"), everywhere("d", plugin.Trace("4", nil)))
	for point, ask := range points {
		list, err := ask(t.Context(), s)
		var got []string
		for _, d := range list {
			got = append(got, d.Plugin+d.Value.Name)
		}
		if want := "c1 c2 a3 d4"; err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, %v, want %s", point, got, err, want)
		}
	}
}

// TestAuthorizeRefusesChanges has a hook that authorizes a call return each directive. It may refuse, ask and report.
func TestAuthorizeRefusesChanges(t *testing.T) {
	t.Parallel()
	may := map[events.DirectiveKind]bool{
		events.DirectiveAbort: true, events.DirectiveAskApproval: true, events.DirectiveEmitEvents: true, events.DirectiveEmitTrace: true, events.DirectiveJudgePlaces: true,
	}
	for _, tc := range matrix {
		s := stack(t, plugin.Func("rules", func(r *plugin.Registrar) error {
			r.AuthorizeToolCall(func(context.Context, plugin.ToolContext) ([]plugin.Directive, error) {
				return []plugin.Directive{tc.directive}, nil
			})
			return nil
		}))
		_, err := s.BeforeToolCall(t.Context(), plugin.ToolContext{})
		if kind := tc.directive.Kind; (err == nil) != may[kind] {
			t.Errorf("%s: got %v, want accepted %t", kind, err, may[kind])
		}
	}
}

// TestDeepValues puts JSON that nests to the limit of readers, and one level deeper, into each directive and into events of a result.
func TestDeepValues(t *testing.T) {
	t.Parallel()
	for levels, fits := range map[int]bool{events.MaxJSONDepth: true, events.MaxJSONDepth + 1: false, 9000: false} {
		value := json.RawMessage(strings.Repeat("[", levels) + strings.Repeat("]", levels))
		for name, d := range map[string]plugin.Directive{"arguments": plugin.ReplaceArgs(value), "events": plugin.Emit(value), "payload": plugin.Trace("a", value)} {
			if err := d.Check(events.PointBeforeTool); (err == nil) != fits || err != nil && !errors.Is(err, events.ErrTooLarge) {
				t.Errorf("%s of %d levels: got %v, want that it fits: %t", name, levels, err, fits)
			}
		}
		r := plugin.Result{Emit: []json.RawMessage{value}}
		if err := r.Check(); (err == nil) != fits {
			t.Errorf("result of %d levels: got %v, want that it fits: %t", levels, err, fits)
		}
	}
}
