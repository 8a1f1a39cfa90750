package system

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

// layer is a prompt layer.
func layer(slot events.Slot, op events.LayerOp, content string) events.PromptLayer {
	return events.PromptLayer{Slot: slot, Op: op, Content: content}
}

// TestPromptLayers checks the system prompt that a provider receives: the instructions, a plugin's contributions
// to slots, the session's layers over them and the turn's over these.
func TestPromptLayers(t *testing.T) {
	t.Parallel()
	contributor := harness.PluginOf("speaker", func(r *plugin.Registrar) {
		r.Prompt(func(context.Context, plugin.PromptContext) ([]events.Contribution, error) {
			return []events.Contribution{{Slot: events.SlotIntro, Content: "intro"}, {Slot: events.SlotGuidance, Content: "guidance"}, {Slot: events.SlotEnvironment, Content: "here"}}, nil
		})
	})
	b, e := startEndpoint(t, []llmtest.Reply{llmtest.Text("ok")}, contributor)
	add, replace, clears := events.LayerAdd, events.LayerReplace, events.LayerClear
	policy := []events.PromptLayer{
		layer(events.SlotGuidance, replace, "policy"), layer(events.SlotGuidance, add, "more"), layer(events.SlotEnvironment, clears, ""),
		{Slot: events.SlotProjectInstructions, Op: add, Title: "Project", Content: "rules"},
	}
	for name, w := range routesOf(b) {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // one endpoint
			check := func(what, want string) {
				t.Helper()
				sent := e.sent()
				runtest.Equal(t, what, strings.ReplaceAll(strings.Join(textsOf(sent[len(sent)-1], "system"), "|"), "\n\n", "/"), want)
			}
			hello := events.TurnInput{Parts: []events.Part{harness.Text("hello")}}
			id := w.Create(events.Config{Instructions: "be kind", Layers: policy})
			w.Run(id, hello)
			const session = "be kind/intro/policy/more/## Project/rules"
			check("of the session", session)

			turn := hello
			turn.Layers = []events.PromptLayer{layer(events.SlotIntro, clears, ""), layer(events.SlotGuidance, add, "turn"), layer(events.SlotEnvironment, add, "there"), layer(events.SlotProjectInstructions, replace, "none")}
			w.Run(id, turn)
			check("of the turn", "be kind/policy/more/turn/none/there")
			w.Run(id, hello)
			check("after the turn", session)

			w.Configure(id, events.Config{})
			w.Run(id, hello)
			check("without layers", "intro/guidance/here")
			runtest.DeepEqual(t, "recorded of the session", harness.Find[*events.SessionOpened](b, id)[0].Config.Layers, policy)
			runtest.DeepEqual(t, "recorded of the turn", harness.Find[*events.TurnRequested](b, id)[1].Input.Layers, turn.Layers)
			b.Verify(id)
		})
	}
}

// TestPromptLayersRefused sends invalid layers, in a configuration and in a turn.
func TestPromptLayersRefused(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	for field, bad := range map[string][]events.PromptLayer{
		"[0].slot":    {layer("attic", events.LayerAdd, "x")},
		"[0].op":      {layer(events.SlotIntro, "prepend", "x")},
		"[0].content": {layer(events.SlotIntro, events.LayerReplace, " \n")},
		"[1].content": {layer(events.SlotIntro, events.LayerAdd, "x"), layer(events.SlotIntro, events.LayerClear, "x")},
		"":            {layer(events.SlotIntro, events.LayerAdd, strings.Repeat("x", events.MaxLayersBytes+1))},
	} {
		_, created := b.Create(b.Ctx, api.CreateRequest{Config: events.Config{Layers: bad}})
		_, submitted := b.Submit(b.Ctx, id, api.TurnRequest{Input: events.TurnInput{Continue: true, Layers: bad}})
		for want, err := range map[string]error{"config.layers" + field: created, "input.layers" + field: submitted} {
			if e, ok := errors.AsType[*events.FieldError](err); !ok || e.Field != want {
				t.Errorf("%+.40v: got %v, want %s refused", bad, err, want)
			}
		}
	}
	many := make([]events.PromptLayer, events.MaxLayers+1)
	_, err := b.Submit(b.Ctx, id, api.TurnRequest{Input: events.TurnInput{Continue: true, Layers: many}})
	runtest.WantError(t, "too many", err, events.ErrTooLarge)
}
