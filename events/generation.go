package events

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// Limits of what a configuration and a turn say about replies.
const (
	MaxInstructionsBytes = 64 << 10 // of a session's system prompt
	MaxStops             = 16       // texts that end a reply
	MaxStopBytes         = 256      // of each
)

// Number is a number as JSON writes it. Empty is no number, which is not 0.
type Number string

// Sampling says how a model chooses what it writes. What is empty is left to the provider.
type Sampling struct {
	Temperature Number   `msgpack:"t,omitempty"` // 0 to 2
	TopP        Number   `msgpack:"p,omitempty"` // 0 to 1
	Seed        Number   `msgpack:"s,omitempty"` // a whole number of 64 bits
	Stop        []string `msgpack:"q,omitempty"` // texts that end a reply, which does not have them
}

// IsZero reports whether everything is left to the provider.
func (s Sampling) IsZero() bool {
	return s.Temperature == "" && s.TopP == "" && s.Seed == "" && len(s.Stop) == 0
}

// Equal reports whether s and o say the same.
func (s Sampling) Equal(o Sampling) bool {
	return s.Temperature == o.Temperature && s.TopP == o.TopP && s.Seed == o.Seed && slices.Equal(s.Stop, o.Stop)
}

// Over is o with what s says in its place.
func (s Sampling) Over(o Sampling) Sampling {
	o.Temperature, o.TopP, o.Seed = cmp.Or(s.Temperature, o.Temperature), cmp.Or(s.TopP, o.TopP), cmp.Or(s.Seed, o.Seed)
	if len(s.Stop) > 0 {
		o.Stop = s.Stop
	}
	return o
}

// Validate refuses what no provider could be sent. The error is a [*FieldError] of a field below the one that is given.
func (s Sampling) Validate(field string) error {
	for _, n := range []struct {
		name  string
		value Number
		most  float64
	}{{"temperature", s.Temperature, 2}, {"top_p", s.TopP, 1}} {
		if n.value == "" {
			continue
		}
		v, err := strconv.ParseFloat(string(n.value), 64)
		if err != nil || !json.Valid([]byte(n.value)) || len(n.value) > maxNumberBytes || v < 0 || v > n.most {
			return invalid(field+"."+n.name, fmt.Sprintf("is no number from 0 to %g", n.most))
		}
	}
	if s.Seed != "" {
		if v, err := strconv.ParseInt(string(s.Seed), 10, 64); err != nil || strconv.FormatInt(v, 10) != string(s.Seed) {
			return invalid(field+".seed", "is no whole number of 64 bits")
		}
	}
	if len(s.Stop) > MaxStops {
		return &FieldError{Field: field + ".stop", Reason: fmt.Sprintf("has %d texts, limit is %d", len(s.Stop), MaxStops), Err: ErrTooLarge}
	}
	for _, text := range s.Stop {
		if text == "" || len(text) > MaxStopBytes {
			return invalid(field+".stop", fmt.Sprintf("has a text of %d bytes, want 1 to %d", len(text), MaxStopBytes))
		}
	}
	return nil
}

// maxNumberBytes of a number: more than any that a program writes has.
const maxNumberBytes = 32

// Generation is what one turn says about its replies. What is empty is left to the session's configuration.
type Generation struct {
	Effort          string   `msgpack:"e,omitempty"` // reasoning effort as the provider spells it
	MaxOutputTokens int64    `msgpack:"o,omitempty"` // a reply
	Sampling        Sampling `msgpack:"s,omitempty"`
}

// IsZero reports whether everything is left to the configuration.
func (g Generation) IsZero() bool {
	return g.Effort == "" && g.MaxOutputTokens == 0 && g.Sampling.IsZero()
}

// Over is a configuration with what g says in its place. A limit of output
// stays the smaller one: a turn may ask for less than the session allows, not for more.
func (g Generation) Over(c Config) Config {
	c.Effort = cmp.Or(g.Effort, c.Effort)
	if g.MaxOutputTokens != 0 && (c.MaxOutputTokens == 0 || g.MaxOutputTokens < c.MaxOutputTokens) {
		c.MaxOutputTokens = g.MaxOutputTokens
	}
	c.Sampling = g.Sampling.Over(c.Sampling)
	return c
}

func (g Generation) validate(field string) error {
	if g.MaxOutputTokens < 0 {
		return invalid(field+".max_output_tokens", "is negative")
	}
	if len(g.Effort) > MaxIDBytes {
		return invalid(field+".effort", fmt.Sprintf("has more than %d bytes", MaxIDBytes))
	}
	return g.Sampling.Validate(field)
}

// Equal reports whether c and o are the same configuration.
func (c Config) Equal(o Config) bool {
	return c.Provider == o.Provider && c.Model == o.Model && c.Effort == o.Effort && c.MaxOutputTokens == o.MaxOutputTokens &&
		c.ContextWindow == o.ContextWindow && c.MaxIterations == o.MaxIterations && c.Protocol == o.Protocol && c.RetainMillis == o.RetainMillis &&
		c.Instructions == o.Instructions && c.Sampling.Equal(o.Sampling) && slices.Equal(c.Layers, o.Layers) && slices.Equal(c.Fallbacks, o.Fallbacks)
}

// IsZero reports whether nothing is configured.
func (c Config) IsZero() bool { return c.Equal(Config{}) }
