package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

// HookCounter counts the hooks of plugins on all nodes together. The first hook at one place blocks there until its
// node is killed.
type HookCounter struct {
	mu    sync.Mutex
	Count map[string]int
	hang  string
	Hangs chan struct{}
}

// NewHookCounter counts hooks, and blocks at one place.
func NewHookCounter(hang string) *HookCounter {
	return &HookCounter{Count: make(map[string]int), hang: hang, Hangs: make(chan struct{})}
}

func (c *HookCounter) called(ctx context.Context, what string) error {
	c.mu.Lock()
	c.Count[what]++
	stays := what == c.hang && c.Count[what] == 1
	c.mu.Unlock()
	if stays {
		close(c.Hangs)
		<-ctx.Done()
	}
	return ctx.Err()
}

// Factory is a plugin with a hook at every point whose outcome is recorded.
func (c *HookCounter) Factory() plugin.Factory {
	visibleEffect := func(what string) []plugin.Directive {
		return []plugin.Directive{plugin.Emit(json.RawMessage(`"` + what + `"`))}
	}
	return PluginOf("tally", func(r *plugin.Registrar) {
		r.TransformContext(1, func(ctx context.Context, _ plugin.TransformContext, now plugin.Prepared) (plugin.Prepared, error) {
			now.Messages[0].Parts[0].Text += " on"
			return now, c.called(ctx, "transform")
		})
		r.BeforeTurn(func(ctx context.Context, _ plugin.TurnContext) ([]plugin.Directive, error) {
			return append(visibleEffect("before"), CreateChild("kid")), c.called(ctx, "before_turn")
		})
		r.Prompt(func(ctx context.Context, _ plugin.PromptContext) ([]events.Contribution, error) {
			return []events.Contribution{{Slot: events.SlotIntro, Content: "be good"}}, c.called(ctx, "prompt")
		})
		r.BeforeModelCall(func(ctx context.Context, in plugin.ModelContext) ([]plugin.Directive, error) {
			return []plugin.Directive{plugin.Contribute(events.Contribution{
				Slot: events.SlotEnvironment, Content: fmt.Sprintf("call %d of %d messages", in.Iteration, len(in.View.Messages)),
			})}, c.called(ctx, fmt.Sprint("before_model ", in.Iteration))
		})
		r.Response(func(ctx context.Context, _ events.SessionID, got plugin.Response) (plugin.Response, []json.RawMessage, error) {
			return got, []json.RawMessage{json.RawMessage(`"response"`)}, c.called(ctx, "response")
		})
		r.BeforeToolCall(func(ctx context.Context, _ plugin.ToolContext) ([]plugin.Directive, error) {
			return []plugin.Directive{plugin.ReplaceArgs(json.RawMessage(`{"a":2}`))}, c.called(ctx, "before_tool")
		})
		r.AfterToolCall(func(ctx context.Context, _ plugin.ToolResultContext) ([]plugin.Directive, error) {
			return append(visibleEffect("after"), plugin.Enqueue(plugin.Say(events.RoleUser, "queued"))), c.called(ctx, "after_tool")
		})
		r.ProjectToolResult(func(ctx context.Context, in plugin.ToolResultContext) (plugin.View, error) {
			return plugin.View{Text: "<" + in.Result.Text + ">"}, c.called(ctx, "projector")
		})
		r.Checkpoint(func(ctx context.Context, in plugin.CheckpointContext) ([]plugin.Directive, error) {
			return visibleEffect("checkpoint"), c.called(ctx, "checkpoint "+string(in.At))
		})
		r.AfterTurn(func(ctx context.Context, _ plugin.TurnResultContext) ([]plugin.Directive, error) {
			return append(visibleEffect("end"), plugin.Enqueue(plugin.Say(events.RoleSystem, "bye"))), c.called(ctx, "after_turn")
		})
		plugin.AddTool(r, plugin.Tool{Name: "look", Effects: events.EffectsIdempotent}, func(ctx context.Context, _ plugin.Call, in OneNumber) (int, error) {
			return in.A, c.called(ctx, "tool")
		})
	})
}
