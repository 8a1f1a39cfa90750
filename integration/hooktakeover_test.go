package integration

import (
	"context"
	"encoding/json"
	"maps"
	"sync"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// hookCounter counts what is asked of plugins on all nodes together. What is asked
// for at one place for the first time hangs there until its node is killed.
type hookCounter struct {
	mu    sync.Mutex
	count map[string]int
	hang  string
	hangs chan struct{}
}

func newHookCounter(hang string) *hookCounter {
	return &hookCounter{count: make(map[string]int), hang: hang, hangs: make(chan struct{})}
}

func (c *hookCounter) asked(ctx context.Context, what string) error {
	c.mu.Lock()
	c.count[what]++
	stays := what == c.hang && c.count[what] == 1
	c.mu.Unlock()
	if stays {
		close(c.hangs)
		<-ctx.Done()
	}
	return ctx.Err()
}

// all is a plugin that is asked at every point whose outcome is recorded.
func (c *hookCounter) all() plugin.Factory {
	shows := func(what string) []plugin.Directive {
		return []plugin.Directive{plugin.Emit(json.RawMessage(`"` + what + `"`))}
	}
	return declares("tally", func(r *plugin.Registrar) {
		r.TransformContext(1, func(ctx context.Context, _ plugin.TransformContext, now plugin.Prepared) (plugin.Prepared, error) {
			now.Messages[0].Parts[0].Text += " on"
			return now, c.asked(ctx, "transform")
		})
		r.BeforeTurn(func(ctx context.Context, _ plugin.TurnContext) ([]plugin.Directive, error) {
			return append(shows("before"), childSession("kid")), c.asked(ctx, "before_turn")
		})
		r.Prompt(func(ctx context.Context, _ plugin.PromptContext) ([]events.Contribution, error) {
			return []events.Contribution{{Slot: events.SlotIntro, Content: "be good"}}, c.asked(ctx, "prompt")
		})
		r.Response(func(ctx context.Context, _ events.SessionID, got plugin.Response) (plugin.Response, []json.RawMessage, error) {
			return got, []json.RawMessage{json.RawMessage(`"response"`)}, c.asked(ctx, "response")
		})
		r.BeforeToolCall(func(ctx context.Context, _ plugin.ToolContext) ([]plugin.Directive, error) {
			return []plugin.Directive{plugin.ReplaceArgs(json.RawMessage(`{"a":2}`))}, c.asked(ctx, "before_tool")
		})
		r.AfterToolCall(func(ctx context.Context, _ plugin.ToolResultContext) ([]plugin.Directive, error) {
			return append(shows("after"), plugin.Enqueue(plugin.Say(events.RoleUser, "queued"))), c.asked(ctx, "after_tool")
		})
		r.ProjectToolResult(func(ctx context.Context, in plugin.ToolResultContext) (string, []events.Part, error) {
			return "<" + in.Result.Text + ">", nil, c.asked(ctx, "projector")
		})
		r.Checkpoint(func(ctx context.Context, in plugin.CheckpointContext) ([]plugin.Directive, error) {
			return shows("checkpoint"), c.asked(ctx, "checkpoint "+string(in.At))
		})
		r.AfterTurn(func(ctx context.Context, _ plugin.TurnResultContext) ([]plugin.Directive, error) {
			return append(shows("end"), plugin.Enqueue(plugin.Say(events.RoleSystem, "bye"))), c.asked(ctx, "after_turn")
		})
		plugin.AddTool(r, plugin.Tool{Name: "look", Effects: events.EffectsIdempotent}, func(ctx context.Context, _ plugin.Call, in oneNumber) (int, error) {
			return in.A, c.asked(ctx, "tool")
		})
	})
}

// askedOnce is what an undisturbed turn asks for.
var askedOnce = map[string]int{
	"transform": 1, "before_turn": 1, "prompt": 1, "response": 2, "before_tool": 1, "tool": 1, "after_tool": 1, "projector": 1,
	"checkpoint after_work": 1, "checkpoint before_completion": 1, "after_turn": 1,
}

// TestTakeoverAsksNoHookAgain kills a node while its turn stands at one place,
// and counts over it and the node that takes over: what was recorded is not
// asked for again, at any point, and what stood at the killed one is.
func TestTakeoverAsksNoHookAgain(t *testing.T) {
	t.Parallel()
	calls, ends := reply(call("k", "look", `{"a":1}`)), reply(text("done"))
	for _, tt := range []struct {
		name     string
		at       string // what hangs; empty: the model does
		script   func(chan<- struct{}) []step
		recorded int            // records of hooks before the kill
		again    map[string]int // what is asked for twice: it was not recorded
	}{
		{"undisturbed", "nothing", nil, 0, nil},
		{"before_turn", "before_turn", nil, 0, map[string]int{"transform": 1, "before_turn": 1}},
		{"prompt", "prompt", nil, 0, map[string]int{"transform": 1, "before_turn": 1, "prompt": 1}}, // the session was created before
		{"first_model_call", "", func(c chan<- struct{}) []step { return []step{hangs(c), calls, ends} }, 1, nil},
		{"before_tool", "before_tool", nil, 2, map[string]int{"before_tool": 1}},
		{"tool", "tool", nil, 3, map[string]int{"tool": 1}},
		{"after_tool", "after_tool", nil, 3, map[string]int{"tool": 1, "after_tool": 1}},
		{"second_model_call", "", func(c chan<- struct{}) []step { return []step{calls, hangs(c), ends} }, 5, nil},
		{"checkpoint_after_work", "checkpoint after_work", nil, 4, map[string]int{"checkpoint after_work": 1}},
		{"checkpoint_before_completion", "checkpoint before_completion", nil, 6, map[string]int{"checkpoint before_completion": 1}},
		{"after_turn", "after_turn", nil, 7, map[string]int{"after_turn": 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newHookCounter(tt.at)
			script := []step{calls, ends, ends, ends} // more than enough: what was not recorded is asked for again
			if tt.script != nil {
				script = tt.script(c.hangs)
			}
			b := setupIdle(t, script...)
			_, kill := b.nodeOn(bustest.Open(t, b.server), c.all())
			id := b.open(api.CreateRequest{})
			b.submit(id, "t1", text("go"))
			if tt.at != "nothing" {
				receive(b, "hangs", c.hangs)
				b.await(id, "what comes before it in the history", func(*projector.State) bool {
					return len(find[*events.HookRan](b, id)) >= tt.recorded
				})
				kill()
				b.nodeOn(bustest.Open(t, b.server), c.all())
			}
			equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
			want := maps.Clone(askedOnce)
			for what, n := range tt.again {
				want[what] += n
			}
			for what, n := range want {
				equal(t, "times "+what, c.count[what], n)
			}
			points := make(map[events.HookPoint]int)
			for _, p := range find[*events.HookRan](b, id) {
				points[p.Point]++
			}
			for point, n := range map[events.HookPoint]int{
				events.PointBeforeTurn: 1, events.PointReply: 2, events.PointBeforeTool: 1, events.PointAfterTool: 1, events.PointCheckpoint: 2, events.PointAfterTurn: 1,
			} {
				equal(t, "records of "+string(point), points[point], n)
			}
			equalLists(t, "messages", b.messages(id), []string{"user go", `assistant k:look{"a":1}`, "user k=<2>", "user queued", "assistant done", "system bye"})
			last := len(b.model.asked()) - 1
			equalLists(t, "prompt", b.model.prompt(last), []string{"system be good", "user go on", `assistant k:look{"a":1}`, "user k=<2>", "user queued"})
			equal(t, "parent of what was created", b.state("kid").Parent, id)
		})
	}
}
