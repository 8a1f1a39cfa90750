package system

import (
	"errors"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

// TestGeneration checks the generation options that a provider receives: of a configuration, of a change of it,
// and of a turn's override, over every API.
func TestGeneration(t *testing.T) {
	t.Parallel()
	b, e := startEndpoint(t, []llmtest.Reply{llmtest.Text("ok")})
	n := 0
	for name, w := range routesOf(b) {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // one endpoint
			check := func(what, instructions string, want object) {
				t.Helper()
				sent := e.sent()
				if n++; len(sent) != n {
					t.Fatalf("%s: got %d requests, want %d", what, len(sent), n)
				}
				for _, field := range []string{"temperature", "top_p", "seed", "stop", "max_tokens", "reasoning_effort"} {
					runtest.DeepEqual(t, what+" "+field, sent[n-1][field], want[field])
				}
				runtest.EqualLists(t, what+" system", textsOf(sent[n-1], "system"), strings.Fields(instructions))
			}
			hello := events.TurnInput{Parts: []events.Part{harness.Text("hello")}}
			id := w.Create(events.Config{
				Instructions: " Brief.\n", Effort: "low", MaxOutputTokens: 70,
				Sampling: events.Sampling{Temperature: "0", TopP: "0.5", Seed: "0", Stop: []string{"END"}},
			})
			w.Run(id, hello)
			all := object{"temperature": 0.0, "top_p": 0.5, "seed": 0.0, "stop": []any{"END"}, "max_tokens": 70.0, "reasoning_effort": "low"}
			check("created", "Brief.", all)

			turn := hello
			turn.Generation = events.Generation{Effort: "high", MaxOutputTokens: 9, Sampling: events.Sampling{Temperature: "1.5", Stop: []string{"a", "b"}}}
			w.Run(id, turn)
			check("of the turn", "Brief.", object{"temperature": 1.5, "top_p": 0.5, "seed": 0.0, "stop": []any{"a", "b"}, "max_tokens": 9.0, "reasoning_effort": "high"})
			w.Run(id, hello)
			check("after the turn", "Brief.", all)

			w.Configure(id, events.Config{Instructions: "Long."})
			w.Run(id, hello)
			check("configured", "Long.", object{})
			runtest.DeepEqual(t, "recorded of the turn", harness.Find[*events.TurnRequested](b, id)[1].Input.Generation, turn.Generation)
			b.Verify(id)
		})
	}
}

// TestGenerationRefused sends invalid values in each field of the options.
func TestGenerationRefused(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	for field, bad := range map[string][]events.Sampling{
		"temperature": {{Temperature: "-0.1"}, {Temperature: "2.1"}, {Temperature: "NaN"}, {Temperature: "0x1"}, {Temperature: events.Number("0." + strings.Repeat("0", 40))}},
		"top_p":       {{TopP: "1.1"}, {TopP: "one"}},
		"seed":        {{Seed: "1.5"}, {Seed: "9223372036854775808"}, {Seed: "+1"}},
		"stop":        {{Stop: []string{""}}, {Stop: []string{strings.Repeat("x", 257)}}, {Stop: make([]string, 17)}},
	} {
		for _, s := range bad {
			_, created := b.Create(b.Ctx, api.CreateRequest{Config: events.Config{Sampling: s}})
			_, submitted := b.Submit(b.Ctx, id, api.TurnRequest{Input: events.TurnInput{Continue: true, Generation: events.Generation{Sampling: s}}})
			configured := b.Configure(b.Ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config { c.Sampling = s; return c }})
			for want, err := range map[string]error{"config.sampling." + field: created, "input.generation." + field: submitted, "config.sampling." + field + " ": configured} {
				if e, ok := errors.AsType[*events.FieldError](err); !ok || e.Field != strings.TrimSpace(want) {
					t.Errorf("%+v: got %v, want %s refused", s, err, want)
				}
			}
		}
	}
	long := events.Config{Instructions: strings.Repeat("x", events.MaxInstructionsBytes+1)}
	_, err := b.Create(b.Ctx, api.CreateRequest{Config: long})
	if e, ok := errors.AsType[*events.FieldError](err); !ok || e.Field != "config.instructions" {
		t.Errorf("got %v, want the instructions refused", err)
	}
}
