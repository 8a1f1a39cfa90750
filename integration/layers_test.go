package integration

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

// layer is short for one.
func layer(slot events.Slot, op events.LayerOp, content string) events.PromptLayer {
	return events.PromptLayer{Slot: slot, Op: op, Content: content}
}

// TestPromptLayers looks at the system prompt that a provider is sent: the instructions, what a
// plugin contributes to slots, the session's layers over that and the turn's over these.
func TestPromptLayers(t *testing.T) {
	t.Parallel()
	speaks := declares("speaker", func(r *plugin.Registrar) {
		r.Prompt(func(context.Context, plugin.PromptContext) ([]events.Contribution, error) {
			return []events.Contribution{{Slot: events.SlotIntro, Content: "intro"}, {Slot: events.SlotGuidance, Content: "guidance"}, {Slot: events.SlotEnvironment, Content: "here"}}, nil
		})
	})
	b, e := setupEndpoint(t, []llmtest.Reply{llmtest.Text("ok")}, speaks)
	add, replace, clears := events.LayerAdd, events.LayerReplace, events.LayerClear
	policy := []events.PromptLayer{
		layer(events.SlotGuidance, replace, "policy"), layer(events.SlotGuidance, add, "more"), layer(events.SlotEnvironment, clears, ""),
		{Slot: events.SlotProjectInstructions, Op: add, Title: "Project", Content: "rules"},
	}
	for name, w := range b.ways() {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // one endpoint
			wants := func(what, want string) {
				t.Helper()
				sent := e.sent()
				equal(t, what, strings.ReplaceAll(strings.Join(toldAs(sent[len(sent)-1], "system"), "|"), "\n\n", "/"), want)
			}
			hello := events.TurnInput{Parts: []events.Part{text("hello")}}
			id := w.create(events.Config{Instructions: "be kind", Layers: policy})
			w.run(id, hello)
			const session = "be kind/intro/policy/more/## Project/rules"
			wants("of the session", session)

			turn := hello
			turn.Layers = []events.PromptLayer{layer(events.SlotIntro, clears, ""), layer(events.SlotGuidance, add, "turn"), layer(events.SlotEnvironment, add, "there"), layer(events.SlotProjectInstructions, replace, "none")}
			w.run(id, turn)
			wants("of the turn", "be kind/policy/more/turn/none/there")
			w.run(id, hello)
			wants("after the turn", session)

			w.configure(id, events.Config{})
			w.run(id, hello)
			wants("without layers", "intro/guidance/here")
			alike(t, "recorded of the session", find[*events.SessionOpened](b, id)[0].Config.Layers, policy)
			alike(t, "recorded of the turn", find[*events.TurnRequested](b, id)[1].Input.Layers, turn.Layers)
			b.verified(id)
		})
	}
}

// TestPromptLayersRefused sends layers that no prompt could have, to a configuration and to a turn.
func TestPromptLayersRefused(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	for field, bad := range map[string][]events.PromptLayer{
		"[0].slot":    {layer("attic", events.LayerAdd, "x")},
		"[0].op":      {layer(events.SlotIntro, "prepend", "x")},
		"[0].content": {layer(events.SlotIntro, events.LayerReplace, " \n")},
		"[1].content": {layer(events.SlotIntro, events.LayerAdd, "x"), layer(events.SlotIntro, events.LayerClear, "x")},
		"":            {layer(events.SlotIntro, events.LayerAdd, strings.Repeat("x", events.MaxLayersBytes+1))},
	} {
		_, created := b.Create(b.ctx, api.CreateRequest{Config: events.Config{Layers: bad}})
		_, submitted := b.Submit(b.ctx, id, api.TurnRequest{Input: events.TurnInput{Continue: true, Layers: bad}})
		for want, err := range map[string]error{"config.layers" + field: created, "input.layers" + field: submitted} {
			if e, ok := errors.AsType[*events.FieldError](err); !ok || e.Field != want {
				t.Errorf("%+.40v: got %v, want %s refused", bad, err, want)
			}
		}
	}
	many := make([]events.PromptLayer, events.MaxLayers+1)
	_, err := b.Submit(b.ctx, id, api.TurnRequest{Input: events.TurnInput{Continue: true, Layers: many}})
	must(t, "too many", err, events.ErrTooLarge)
}
