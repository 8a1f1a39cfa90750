package events

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// Limits of generation settings.
const (
	MaxInstructionsBytes = 64 << 10 // system prompt of a session
	MaxStops             = 16       // stop texts
	MaxStopBytes         = 256      // of one stop text
)

// Number is a JSON number. Empty means not set, which differs from 0.
type Number string

// Sampling controls a model's sampling. The provider's default applies to empty fields.
type Sampling struct {
	Temperature Number   `msgpack:"t,omitempty"` // 0 to 2
	TopP        Number   `msgpack:"p,omitempty"` // 0 to 1
	Seed        Number   `msgpack:"s,omitempty"` // an integer of 64 bits
	Stop        []string `msgpack:"q,omitempty"` // a reply ends before the first of these texts
}

// IsZero reports whether no field is set.
func (s Sampling) IsZero() bool {
	return s.Temperature == "" && s.TopP == "" && s.Seed == "" && len(s.Stop) == 0
}

// Equal reports whether s and o are equal.
func (s Sampling) Equal(o Sampling) bool {
	return s.Temperature == o.Temperature && s.TopP == o.TopP && s.Seed == o.Seed && slices.Equal(s.Stop, o.Stop)
}

// Over returns o with the fields that s sets.
func (s Sampling) Over(o Sampling) Sampling {
	o.Temperature, o.TopP, o.Seed = cmp.Or(s.Temperature, o.Temperature), cmp.Or(s.TopP, o.TopP), cmp.Or(s.Seed, o.Seed)
	if len(s.Stop) > 0 {
		o.Stop = s.Stop
	}
	return o
}

// Validate refuses values that no provider accepts. The error is a [*FieldError] for a field below the named one.
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

// maxNumberBytes limits the length of a number. Programs write shorter ones.
const maxNumberBytes = 32

// Generation has the settings of one turn for its replies. The session's configuration applies to empty fields.
type Generation struct {
	Effort          string   `msgpack:"e,omitempty"` // reasoning effort in the provider's spelling
	MaxOutputTokens int64    `msgpack:"o,omitempty"` // of one reply
	Sampling        Sampling `msgpack:"s,omitempty"`
}

// IsZero reports whether no field is set.
func (g Generation) IsZero() bool {
	return g.Effort == "" && g.MaxOutputTokens == 0 && g.Sampling.IsZero()
}

// Over returns the configuration with the fields that g sets. The smaller output limit applies: a turn cannot exceed
// the session's limit.
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

// Equal reports whether c and o are equal.
func (c Config) Equal(o Config) bool {
	return c.Provider == o.Provider && c.Model == o.Model && c.Effort == o.Effort && c.MaxOutputTokens == o.MaxOutputTokens &&
		c.ContextWindow == o.ContextWindow && c.MaxIterations == o.MaxIterations && c.Protocol == o.Protocol && c.RetainMillis == o.RetainMillis && c.SilenceMillis == o.SilenceMillis && c.Environment == o.Environment &&
		c.Instructions == o.Instructions && c.Sampling.Equal(o.Sampling) && slices.Equal(c.Layers, o.Layers) && slices.Equal(c.Fallbacks, o.Fallbacks)
}

// IsZero reports whether c is the zero value.
func (c Config) IsZero() bool { return c.Equal(Config{}) }
