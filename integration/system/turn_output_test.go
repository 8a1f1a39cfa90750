package system

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/code"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

const citySchema = `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}`

func cityTurn() events.TurnInput {
	return events.TurnInput{Parts: []events.Part{harness.Text("where?")}, Output: events.OutputForm{Name: "city", Schema: []byte(citySchema), Strict: true}}
}

// TestOutputForm requests a reply of a form, over every API. The provider receives the schema. The reply is
// checked, repaired once, and recorded, or the turn ends with the reason.
func TestOutputForm(t *testing.T) {
	t.Parallel()
	const good, bad, wrong = `{"city":"Bonn"}`, `Bonn`, `{"town":"Bonn"}`
	replies := []llmtest.Reply{llmtest.Text(good), llmtest.Text(bad), llmtest.Text(good), llmtest.Text(wrong), llmtest.Text(bad), llmtest.Text("any")}
	b, e := startEndpoint(t, append(append(replies, replies...), replies...))
	for name, w := range routesOf(b) {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // one endpoint
			before := len(e.sent())
			id := w.Create(events.Config{})
			at := w.Run(id, cityTurn())
			runtest.Equal(t, "at once", at.Outcome, api.TurnOutcome{Type: api.OutcomeSubmittedValue, Value: good})
			repaired := w.Run(id, cityTurn())
			runtest.Equal(t, "repaired", repaired.Outcome, api.TurnOutcome{Type: api.OutcomeSubmittedValue, Value: good})
			broken := w.Run(id, cityTurn())
			runtest.Equal(t, "broken", broken.Outcome, api.TurnOutcome{Type: api.OutcomeStopped, Reason: events.EndProviderError})
			if len(broken.Errors) != 1 || broken.Errors[0].Code != "invalid_output" || broken.Errors[0].UserMessage != "the model's reply is no JSON, also after it was asked to repair it" {
				t.Errorf("broken: got %+v, want what was wrong", broken.Errors)
			}
			plain := w.Run(id, events.TurnInput{Parts: []events.Part{harness.Text("hi")}})
			runtest.Equal(t, "without a form", plain.Outcome, api.TurnOutcome{Type: api.OutcomeAssistantMessage, Text: "any"})

			sent := e.sent()[before:]
			runtest.Equal(t, "requests", len(sent), 6)
			for i, body := range sent[:5] {
				format, _ := body["response_format"].(object)
				schema, _ := format["json_schema"].(object)
				if format["type"] != "json_schema" || schema["name"] != "city" || schema["strict"] != true || schema["schema"].(object)["required"] == nil {
					t.Errorf("request %d: got response_format %v", i, format)
				}
			}
			runtest.DeepEqual(t, "format without a form", sent[5]["response_format"], nil)
			for i, want := range map[int]string{2: "is no JSON", 4: "does not match the schema"} {
				if users := textsOf(sent[i], "user"); !strings.Contains(users[len(users)-1], want) {
					t.Errorf("request %d: got %q, want the model told that its reply %s", i, users, want)
				}
			}
			var faults []string
			for _, r := range harness.Find[*events.ModelReplied](b, id) {
				faults = append(faults, strings.SplitN(r.Fault, ":", 2)[0])
			}
			runtest.EqualLists(t, "recorded faults", faults, []string{"", "is no JSON", "", "does not match the schema", "is no JSON", ""})
			b.Verify(id)
		})
	}
}

// TestOutputFormRefused has forms refused at the submit, for turns at once and for later ones.
func TestOutputFormRefused(t *testing.T) {
	t.Parallel()
	b, _ := startEndpoint(t, []llmtest.Reply{llmtest.Text("{}")}, code.Factory(code.Config{}))
	id, programs := b.Open(api.CreateRequest{}), b.Open(api.CreateRequest{Config: events.Config{Protocol: "code"}})
	for _, c := range []struct {
		id    events.SessionID
		form  events.OutputForm
		field string
	}{
		{id, events.OutputForm{Name: "x"}, "input.output.name"},
		{id, events.OutputForm{Strict: true}, "input.output.strict"},
		{id, events.OutputForm{Schema: []byte("{}")}, "input.output.name"},
		{id, events.OutputForm{Name: "a b", Schema: []byte("{}")}, "input.output.name"},
		{id, events.OutputForm{Name: "x", Schema: []byte("true")}, "input.output.schema"},
		{id, events.OutputForm{Name: "x", Schema: []byte(`{"$ref":"#"}`)}, "input.output.schema"},
		{id, events.OutputForm{Name: "x", Schema: harness.Nest(200, `{"not":`, "{}", "}")}, "input.output.schema"},
		{id, events.OutputForm{Name: "x", Schema: []byte(`{"title":"` + strings.Repeat("x", events.MaxFormBytes) + `"}`)}, "input.output.schema"},
		{programs, events.OutputForm{Name: "x", Schema: []byte("{}")}, "input.output"},
	} {
		req := api.TurnRequest{Input: events.TurnInput{Parts: []events.Part{harness.Text("go")}, Output: c.form}}
		_, now := b.Submit(b.Ctx, c.id, req)
		_, later := b.SubmitAt(b.Ctx, c.id, time.Now().Add(time.Hour), req)
		for _, err := range []error{now, later} {
			if e, ok := errors.AsType[*events.FieldError](err); !ok || e.Field != c.field {
				t.Errorf("%s: got %v, want %s refused", plugin.OutputOf(c.form).Schema[:min(20, len(c.form.Schema))], err, c.field)
			}
		}
	}
	_, err := b.Submit(b.Ctx, id, api.TurnRequest{Input: cityTurn(), WhenBusy: api.WhenBusyInject})
	runtest.WantError(t, "inject", err, events.ErrInvalid)
}
