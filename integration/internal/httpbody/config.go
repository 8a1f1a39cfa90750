package httpbody

import (
	"strconv"

	"github.com/lash-go/lash/events"
)

// ConfigOf converts a configuration to its JSON.
func ConfigOf(c events.Config) SessionConfig {
	out := SessionConfig{
		Provider: c.Provider, Model: c.Model, Effort: c.Effort, MaxOutputTokens: c.MaxOutputTokens, ContextWindow: c.ContextWindow,
		MaxIterations: c.MaxIterations, Protocol: c.Protocol, RetainMillis: c.RetainMillis, SilenceMillis: c.SilenceMillis, Instructions: c.Instructions,
		Sampling: Sampling{Temperature: float(c.Sampling.Temperature), TopP: float(c.Sampling.TopP), Stop: c.Sampling.Stop},
	}
	if seed, err := strconv.ParseInt(string(c.Sampling.Seed), 10, 64); err == nil {
		out.Sampling.Seed = &seed
	}
	for _, l := range c.Layers {
		out.Layers = append(out.Layers, PromptLayer(l))
	}
	for _, f := range c.Fallbacks {
		out.Fallbacks = append(out.Fallbacks, Fallback(f))
	}
	return out
}

// float is nil for a number that is not set.
func float(n events.Number) *float64 {
	v, err := strconv.ParseFloat(string(n), 64)
	if err != nil {
		return nil
	}
	return &v
}
