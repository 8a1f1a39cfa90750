package httpapi

import (
	"encoding/json"
	"strconv"

	"github.com/lash-go/lash/events"
)

// samplingJSON has a model's sampling parameters. The provider chooses absent ones.
type samplingJSON struct {
	Temperature *float64 `json:"temperature,omitempty" jsonschema:"0 to 2"`
	TopP        *float64 `json:"top_p,omitempty" jsonschema:"0 to 1"`
	Seed        *int64   `json:"seed,omitempty"`
	Stop        []string `json:"stop,omitempty" jsonschema:"texts that end a reply: at most 16, of 256 bytes each"`
}

// turnGenerationJSON has the generation settings of one turn. Absent ones are the session's.
type turnGenerationJSON struct {
	Effort          string       `json:"effort,omitempty" jsonschema:"effort of reasoning, in the words of the provider"`
	MaxOutputTokens int64        `json:"max_output_tokens,omitempty" jsonschema:"limit of tokens in a reply"`
	Sampling        samplingJSON `json:"sampling,omitzero"`
}

// promptLayerJSON changes one slot of the system prompt.
type promptLayerJSON struct {
	Slot    events.Slot    `json:"slot" jsonschema:"intro, execution, guidance, project_instructions, runtime_context or environment: the order of slots in the prompt"`
	Op      events.LayerOp `json:"op" jsonschema:"add: append to the contributions of plugins to the slot; replace: replace them; clear: empty the slot"`
	Title   string         `json:"title,omitempty" jsonschema:"heading over the content"`
	Content string         `json:"content,omitempty" jsonschema:"content of add and replace"`
}

// fallbackJSON is a model to use where those before it fail.
type fallbackJSON struct {
	Provider string `json:"provider,omitempty" jsonschema:"defaults to the session's"`
	Model    string `json:"model"`
}

// converted converts each entry of a list; nil for an empty one.
func converted[A, B any](list []A, convert func(A) B) []B {
	var out []B
	for _, entry := range list {
		out = append(out, convert(entry))
	}
	return out
}

func eventFallbacks(list []fallbackJSON) []events.Fallback {
	return converted(list, func(f fallbackJSON) events.Fallback { return events.Fallback(f) })
}

func eventLayers(list []promptLayerJSON) []events.PromptLayer {
	return converted(list, func(l promptLayerJSON) events.PromptLayer { return events.PromptLayer(l) })
}

// answerFormJSON is the form of a turn's answer. Absent: text.
type answerFormJSON struct {
	Name   string          `json:"name" jsonschema:"name of the schema: 1 to 64 of A-Z a-z 0-9 _ -"`
	Schema json.RawMessage `json:"schema" jsonschema:"JSON schema of the answer; the schema itself is an object of up to 32 KiB"`
	Strict bool            `json:"strict,omitempty" jsonschema:"true: the provider enforces the schema"`
}

func (s samplingJSON) toEvents() events.Sampling {
	out := events.Sampling{Temperature: numberOf(s.Temperature), TopP: numberOf(s.TopP), Stop: s.Stop}
	if s.Seed != nil {
		out.Seed = events.Number(strconv.FormatInt(*s.Seed, 10))
	}
	return out
}

func numberOf(v *float64) events.Number {
	if v == nil {
		return ""
	}
	return events.Number(strconv.FormatFloat(*v, 'g', -1, 64))
}

func samplingOf(s events.Sampling) samplingJSON {
	out := samplingJSON{Temperature: float(s.Temperature), TopP: float(s.TopP), Stop: s.Stop}
	if v, err := strconv.ParseInt(string(s.Seed), 10, 64); err == nil {
		out.Seed = &v
	}
	return out
}

func float(n events.Number) *float64 {
	v, err := strconv.ParseFloat(string(n), 64)
	if err != nil {
		return nil
	}
	return &v
}

func (g turnGenerationJSON) toEvents() events.Generation {
	return events.Generation{Effort: g.Effort, MaxOutputTokens: g.MaxOutputTokens, Sampling: g.Sampling.toEvents()}
}

func (c sessionConfigJSON) toEvents() events.Config {
	return events.Config{
		Provider: c.Provider, Model: c.Model, Effort: c.Effort, MaxOutputTokens: c.MaxOutputTokens, ContextWindow: c.ContextWindow,
		MaxIterations: c.MaxIterations, Protocol: c.Protocol, RetainMillis: c.RetainMillis, SilenceMillis: c.SilenceMillis, Environment: c.Environment,
		Instructions: c.Instructions, Sampling: c.Sampling.toEvents(), Layers: eventLayers(c.Layers),
		Fallbacks: eventFallbacks(c.Fallbacks),
	}
}

// configOf converts a configuration to its JSON form.
func configOf(c events.Config) sessionConfigJSON {
	return sessionConfigJSON{
		Provider: c.Provider, Model: c.Model, Effort: c.Effort, MaxOutputTokens: c.MaxOutputTokens, ContextWindow: c.ContextWindow,
		MaxIterations: c.MaxIterations, Protocol: c.Protocol, RetainMillis: c.RetainMillis, SilenceMillis: c.SilenceMillis, Environment: c.Environment,
		Instructions: c.Instructions, Sampling: samplingOf(c.Sampling), Layers: converted(c.Layers, func(l events.PromptLayer) promptLayerJSON { return promptLayerJSON(l) }),
		Fallbacks: converted(c.Fallbacks, func(f events.Fallback) fallbackJSON { return fallbackJSON(f) }),
	}
}
