package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// shows is a plugin that has something to show at every point of a turn.
type shows struct {
	stack *plugin.Session
	heard chan struct{} // closed when a watcher heard what the tool says
}

// SessionReady implements [plugin.Readier].
func (s *shows) SessionReady(_ context.Context, stack *plugin.Session) error {
	s.stack = stack
	return nil
}

func shown(s string) plugin.Directive { return plugin.Emit(json.RawMessage(`"` + s + `"`)) }

func (s *shows) Register(r *plugin.Registrar) error {
	r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) {
		return []plugin.Directive{shown("before turn")}, nil
	})
	r.BeforeToolCall(func(context.Context, plugin.ToolContext) ([]plugin.Directive, error) {
		return []plugin.Directive{shown("before call")}, nil
	})
	r.AfterToolCall(func(context.Context, plugin.ToolResultContext) ([]plugin.Directive, error) {
		return []plugin.Directive{shown("after call"), plugin.Enqueue(plugin.Say(events.RoleUser, "queued"))}, nil
	})
	r.Checkpoint(func(_ context.Context, in plugin.CheckpointContext) ([]plugin.Directive, error) {
		list := []plugin.Directive{shown(string(in.At))}
		if in.At == events.AtAfterWork {
			list = append(list, plugin.Enqueue(plugin.Say(events.RoleSystem, "hooked"), plugin.Say(events.RoleAssistant, "dropped")))
		}
		return list, nil
	})
	r.AfterTurn(func(context.Context, plugin.TurnResultContext) ([]plugin.Directive, error) {
		return []plugin.Directive{shown("after turn")}, nil
	})
	r.Stream(func(_ context.Context, _ events.SessionID, chunk string) (plugin.StreamTransform, error) {
		return plugin.StreamTransform{Chunk: chunk, Events: []json.RawMessage{json.RawMessage(`"stream"`)}}, nil
	})
	r.Response(func(_ context.Context, _ events.SessionID, got plugin.Response) (plugin.Response, []json.RawMessage, error) {
		return got, []json.RawMessage{json.RawMessage(`"response"`)}, nil
	})
	plugin.AddTool(r, plugin.Tool{Name: "delegate"}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
		if _, err := c.Host.CreateSession(ctx, api.CreateRequest{ID: "child", Relation: events.RelationChild, Usage: "subagent"}); err != nil {
			return "", err
		}
		s.stack.Message("half way", "progress")
		s.stack.Message("print()", "lashlang_code")
		<-s.heard
		got, err := c.Host.StartTurn(ctx, "child", api.TurnRequest{ID: "c1", Input: events.TurnInput{Parts: []events.Part{text("help")}}})
		return got.Output.SafeText, err
	})
	return nil
}

// TestTurnEvents has everything that a host is shown of a turn beside its replies and calls.
func TestTurnEvents(t *testing.T) {
	t.Parallel()
	b := setupIdle(t,
		reply(text("Let me ask."), call("k1", "delegate", `{}`)),
		stopped(events.StopEnd, events.Usage{Input: 3, Output: 2}, text("advice")),
		reply(text("Done.")))
	heard := make(chan struct{})
	b.node(plugin.New("shows", func(in plugin.BuildContext) (plugin.Plugin, error) {
		if in.Parent != "" {
			return declared(func(*plugin.Registrar) {}), nil
		}
		return &shows{heard: heard}, nil
	}))
	id := b.open(api.CreateRequest{ID: "parent"})
	var got []string
	for _, e := range b.turnEvents(b.Host, id, "t1", func(e api.SessionEvent) {
		if e.Type == api.EventMessage { // the call runs
			_, err := b.Inject(b.ctx, id, api.InjectRequest{ID: "i1", Parts: []events.Part{text("also")}})
			must(t, "inject", err, nil)
			close(heard)
		}
	}) {
		switch line := string(e.Type); e.Type {
		case api.EventPlugin:
			got = append(got, fmt.Sprintf("%s %s %s", line, e.Plugin, e.Event))
		case api.EventMessagesAdded:
			for _, m := range e.Messages {
				line += fmt.Sprintf(" %s:%s", m.Role, m.Parts[0].Text)
			}
			got = append(got, line+" at "+string(e.Checkpoint))
		case api.EventInputAccepted:
			got = append(got, fmt.Sprintf("%s %s at %s", line, e.Inputs[0].ID, e.Checkpoint))
		case api.EventMessage:
			got = append(got, fmt.Sprintf("%s %s: %s", line, e.Kind, e.Text))
		case api.EventChildTokenUsage:
			got = append(got, fmt.Sprintf("%s %s %s %d/%d", line, e.Session, e.Source, e.Usage.Input, e.Usage.Output))
		case api.EventTurnOutcome:
			got = append(got, fmt.Sprintf("%s %s", line, e.TurnOutcome.Text))
		default:
			got = append(got, line)
		}
	}
	equalLists(t, "events", got, []string{
		`plugin_event shows "before turn"`,
		"llm_request", "text_delta", "llm_response", "token_usage", "tool_call_start", `plugin_event shows "stream"`, `plugin_event shows "response"`,
		`plugin_event shows "before call"`, "message progress: half way", "child_token_usage child subagent 3/2",
		`plugin_event shows "after call"`, "tool_call",
		"injected_turn_input_accepted i1 at after_work", `plugin_event shows "after_work"`,
		"injected_messages_committed user:queued system:hooked at after_work",
		"llm_request", "text_delta", "llm_response", "token_usage", `plugin_event shows "stream"`, `plugin_event shows "response"`,
		`plugin_event shows "before_completion"`, `plugin_event shows "after turn"`, "turn_outcome Done.", "done",
	})
	turn, err := b.AssembledTurn(b.ctx, id, "t1")
	must(t, "assemble", err, nil)
	equal(t, "children", len(turn.ChildrenUsage), 1)
	equal(t, "usage of children", turn.ChildrenUsage[0].Usage, api.TokenUsage{Input: 3, Output: 2})
	equal(t, "source", turn.ChildrenUsage[0].Source, "subagent")
	equal(t, "usage", turn.Usage, api.TokenUsage{Input: 20, Output: 10})
	equal(t, "had tool calls", turn.HadToolCalls, true)
	equal(t, "had code", turn.HadCode, false)
	equal(t, "output", turn.ToolCalls[0].Output, "advice")

	child, err := b.AssembledTurn(b.ctx, "child", "c1")
	must(t, "assemble the child's", err, nil)
	equal(t, "children of the child", len(child.ChildrenUsage), 0)
}
