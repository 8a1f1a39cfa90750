package system

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/llm"
)

// emitter is a plugin that emits an event at every point of a turn.
type emitter struct {
	stack    *plugin.Stack
	received chan struct{} // closed when a watcher has received the tool's text
}

func (s *emitter) SessionReady(_ context.Context, stack *plugin.Stack) error {
	s.stack = stack
	return nil
}

func emit(s string) plugin.Directive { return plugin.Emit(json.RawMessage(`"` + s + `"`)) }

func (s *emitter) Register(r *plugin.Registrar) error {
	r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) {
		return []plugin.Directive{emit("before turn")}, nil
	})
	r.BeforeToolCall(func(context.Context, plugin.ToolContext) ([]plugin.Directive, error) {
		return []plugin.Directive{emit("before call")}, nil
	})
	r.AfterToolCall(func(context.Context, plugin.ToolResultContext) ([]plugin.Directive, error) {
		return []plugin.Directive{emit("after call"), plugin.Enqueue(plugin.Say(events.RoleUser, "queued"))}, nil
	})
	r.Checkpoint(func(_ context.Context, in plugin.CheckpointContext) ([]plugin.Directive, error) {
		list := []plugin.Directive{emit(string(in.At))}
		if in.At == events.AtAfterWork {
			list = append(list, plugin.Enqueue(plugin.Say(events.RoleSystem, "hooked"), plugin.Say(events.RoleAssistant, "dropped")))
		}
		return list, nil
	})
	r.AfterTurn(func(context.Context, plugin.TurnResultContext) ([]plugin.Directive, error) {
		return []plugin.Directive{emit("after turn")}, nil
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
		<-s.received
		got, err := c.Host.StartTurn(ctx, "child", api.TurnRequest{ID: "c1", Input: events.TurnInput{Parts: []events.Part{harness.Text("help")}}})
		return got.Output.SafeText, err
	})
	return nil
}

// TestTurnEvents reads all events of a turn other than its replies and calls.
func TestTurnEvents(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t,
		harness.Reply(harness.Text("Let me ask."), harness.Call("k1", "delegate", `{}`)),
		harness.ReplyStopped(events.StopEnd, events.Usage{Input: 3, Output: 2}, harness.Text("advice")),
		harness.Reply(harness.Text("Done.")))
	received := make(chan struct{})
	b.StartNode(plugin.New("shows", func(in plugin.BuildContext) (plugin.Plugin, error) {
		if in.Parent != "" {
			return harness.Registration(func(*plugin.Registrar) {}), nil
		}
		return &emitter{received: received}, nil
	}))
	id := b.Open(api.CreateRequest{ID: "parent"})
	var got []string
	streamed := 0
	for _, e := range b.TurnEvents(b.Host, id, "t1", func(e api.SessionEvent) {
		if e.Type == api.EventMessage { // the call runs
			_, err := b.Inject(b.Ctx, id, api.InjectRequest{ID: "i1", Parts: []events.Part{harness.Text("also")}})
			runtest.WantError(t, "inject", err, nil)
			close(received)
		}
	}) {
		switch line := string(e.Type); e.Type {
		case api.EventPlugin:
			if string(e.Event) == `"stream"` { // with the reply, or before
				streamed++
				continue
			}
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
	runtest.EqualLists(t, "events", got, []string{
		`plugin_event shows "before turn"`,
		"llm_request", "text_delta", "llm_response", "token_usage", "tool_call_start", `plugin_event shows "response"`,
		`plugin_event shows "before call"`, "message progress: half way", "child_token_usage child subagent 3/2",
		`plugin_event shows "after call"`, "tool_call",
		"injected_turn_input_accepted i1 at after_work", `plugin_event shows "after_work"`,
		"injected_messages_committed user:queued system:hooked at after_work",
		"llm_request", "text_delta", "llm_response", "token_usage", `plugin_event shows "response"`,
		`plugin_event shows "before_completion"`, `plugin_event shows "after turn"`, "turn_outcome Done.", "done",
	})
	runtest.Equal(t, "events of the stream", streamed, 2)
	turn, err := b.AssembledTurn(b.Ctx, id, "t1")
	runtest.WantError(t, "assemble", err, nil)
	runtest.Equal(t, "children", len(turn.ChildrenUsage), 1)
	runtest.Equal(t, "usage of children", turn.ChildrenUsage[0].Usage, api.TokenUsage{Input: 3, Output: 2})
	runtest.Equal(t, "source", turn.ChildrenUsage[0].Source, "subagent")
	runtest.Equal(t, "usage", turn.Usage, api.TokenUsage{Input: 20, Output: 10})
	runtest.Equal(t, "had tool calls", turn.HadToolCalls, true)
	runtest.Equal(t, "had code", turn.HadCode, false)
	runtest.Equal(t, "output", turn.ToolCalls[0].Output, "advice")

	child, err := b.AssembledTurn(b.Ctx, "child", "c1")
	runtest.WantError(t, "assemble the child's", err, nil)
	runtest.Equal(t, "children of the child", len(child.ChildrenUsage), 0)
}

// TestStreamEventsAtOnce has a model that continues when a watcher has what a hook showed of the reply's first text: in the turn's events,
// and as a delta. The commit has it once more, and the turn's events do not. What is too large for a delta comes with the commit alone.
func TestStreamEventsAtOnce(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	seen, large := make(chan struct{}), json.RawMessage(`"`+strings.Repeat("x", api.MaxEventBytes)+`"`)
	b.Host = b.StartNodeWith(workers.Config{
		Providers: map[string]llm.Provider{"slow": waits{seen}}, Provider: "slow",
	}, plugin.BuilderConfig{Builtins: []plugin.Factory{standard.Factory()}, Factories: []plugin.Factory{harness.PluginOf("shows", func(r *plugin.Registrar) {
		r.Stream(func(_ context.Context, _ events.SessionID, chunk string) (plugin.StreamTransform, error) {
			list := []json.RawMessage{json.RawMessage(`{"of":"` + chunk + `"}`)}
			if chunk == "first" {
				list = append([]json.RawMessage{large}, list...)
			}
			return plugin.StreamTransform{Chunk: chunk, Events: list}, nil
		})
	})}}).Host()
	id := b.Open(api.CreateRequest{})
	var got []string
	b.TurnEvents(b.Host, id, "t1", func(e api.SessionEvent) {
		if e.Type == api.EventPlugin {
			got = append(got, string(e.Event))
			if len(got) == 1 {
				close(seen)
			}
		}
	})
	runtest.EqualLists(t, "events", got, []string{`{"of":"first"}`, `{"of":"second"}`, string(large)})
	ran := b.HookRecord(id, events.PointReply)
	runtest.Equal(t, "recorded", len(ran.Decisions), 3)
}

// waits is a model that continues after its first text when seen is closed.
type waits struct{ seen <-chan struct{} }

func (waits) ID() string { return "slow" }

func (w waits) Complete(ctx context.Context, _ llm.Request, sink func(llm.Delta)) (llm.Response, error) {
	sink(harness.TextDelta("first"))
	select {
	case <-w.seen:
	case <-ctx.Done():
		return llm.Response{}, ctx.Err()
	}
	sink(harness.TextDelta("second"))
	return harness.StreamedReply("firstsecond")
}
