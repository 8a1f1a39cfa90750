package integration

import (
	"errors"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

// TestGeneration looks at what a provider is sent of a configuration, of a change
// of that, and of what a turn says in its place, whichever way each comes.
func TestGeneration(t *testing.T) {
	t.Parallel()
	b, e := setupEndpoint(t, []llmtest.Reply{llmtest.Text("ok")})
	n := 0
	for name, w := range b.ways() {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // one endpoint
			wants := func(what, instructions string, want object) {
				t.Helper()
				sent := e.sent()
				if n++; len(sent) != n {
					t.Fatalf("%s: got %d requests, want %d", what, len(sent), n)
				}
				for _, field := range []string{"temperature", "top_p", "seed", "stop", "max_tokens", "reasoning_effort"} {
					alike(t, what+" "+field, sent[n-1][field], want[field])
				}
				equalLists(t, what+" system", toldAs(sent[n-1], "system"), strings.Fields(instructions))
			}
			hello := events.TurnInput{Parts: []events.Part{text("hello")}}
			id := w.create(events.Config{
				Instructions: " Brief.\n", Effort: "low", MaxOutputTokens: 70,
				Sampling: events.Sampling{Temperature: "0", TopP: "0.5", Seed: "0", Stop: []string{"END"}},
			})
			w.run(id, hello)
			all := object{"temperature": 0.0, "top_p": 0.5, "seed": 0.0, "stop": []any{"END"}, "max_tokens": 70.0, "reasoning_effort": "low"}
			wants("created", "Brief.", all)

			turn := hello
			turn.Generation = events.Generation{Effort: "high", MaxOutputTokens: 9, Sampling: events.Sampling{Temperature: "1.5", Stop: []string{"a", "b"}}}
			w.run(id, turn)
			wants("of the turn", "Brief.", object{"temperature": 1.5, "top_p": 0.5, "seed": 0.0, "stop": []any{"a", "b"}, "max_tokens": 9.0, "reasoning_effort": "high"})
			w.run(id, hello)
			wants("after the turn", "Brief.", all)

			w.configure(id, events.Config{Instructions: "Long."})
			w.run(id, hello)
			wants("configured", "Long.", object{})
			alike(t, "recorded of the turn", find[*events.TurnRequested](b, id)[1].Input.Generation, turn.Generation)
			b.verified(id)
		})
	}
}

// TestGenerationRefused sends what no provider could be asked for, to each field that takes it.
func TestGenerationRefused(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	for field, bad := range map[string][]events.Sampling{
		"temperature": {{Temperature: "-0.1"}, {Temperature: "2.1"}, {Temperature: "NaN"}, {Temperature: "0x1"}, {Temperature: events.Number("0." + strings.Repeat("0", 40))}},
		"top_p":       {{TopP: "1.1"}, {TopP: "one"}},
		"seed":        {{Seed: "1.5"}, {Seed: "9223372036854775808"}, {Seed: "+1"}},
		"stop":        {{Stop: []string{""}}, {Stop: []string{strings.Repeat("x", 257)}}, {Stop: make([]string, 17)}},
	} {
		for _, s := range bad {
			_, created := b.Create(b.ctx, api.CreateRequest{Config: events.Config{Sampling: s}})
			_, submitted := b.Submit(b.ctx, id, api.TurnRequest{Input: events.TurnInput{Continue: true, Generation: events.Generation{Sampling: s}}})
			configured := b.Configure(b.ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config { c.Sampling = s; return c }})
			for want, err := range map[string]error{"config.sampling." + field: created, "input.generation." + field: submitted, "config.sampling." + field + " ": configured} {
				if e, ok := errors.AsType[*events.FieldError](err); !ok || e.Field != strings.TrimSpace(want) {
					t.Errorf("%+v: got %v, want %s refused", s, err, want)
				}
			}
		}
	}
	long := events.Config{Instructions: strings.Repeat("x", events.MaxInstructionsBytes+1)}
	_, err := b.Create(b.ctx, api.CreateRequest{Config: long})
	if e, ok := errors.AsType[*events.FieldError](err); !ok || e.Field != "config.instructions" {
		t.Errorf("got %v, want the instructions refused", err)
	}
}
