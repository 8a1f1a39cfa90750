package events

import (
	"cmp"
	"fmt"
)

// MaxFallbacks limits the fallback models of a configuration.
const MaxFallbacks = 8

// Fallback is a model to call after failures of the models before it.
type Fallback struct {
	Provider string `msgpack:"p,omitempty"` // provider id; empty takes the configuration's
	Model    string `msgpack:"m"`
}

// FallbackTo is the fallback model of a turn, from a failed call to the turn's end.
type FallbackTo struct {
	Place    int64  `msgpack:"n"`           // index in the configuration's list, from 1; above that of the failed model
	Provider string `msgpack:"p,omitempty"` // provider id; empty takes the node's default
	Model    string `msgpack:"m"`
}

// IsZero reports whether there is no fallback.
func (f FallbackTo) IsZero() bool { return f == FallbackTo{} }

// Over returns the configuration with the fallback as its model.
func (f FallbackTo) Over(c Config) Config {
	if !f.IsZero() {
		c.Provider, c.Model = f.Provider, f.Model
	}
	return c
}

func (f FallbackTo) validate() error {
	if !f.IsZero() && (f.Place < 1 || f.Model == "") {
		return invalid("fallback", fmt.Sprintf("has the model %q at place %d, want one at 1 or above", f.Model, f.Place))
	}
	return nil
}

// FallbackAfter is the fallback after that with index place; 0 means the first. Without one it is zero.
func (c *Config) FallbackAfter(place int64) FallbackTo {
	if place >= int64(len(c.Fallbacks)) {
		return FallbackTo{}
	}
	next := c.Fallbacks[place]
	return FallbackTo{Place: place + 1, Provider: cmp.Or(next.Provider, c.Provider), Model: next.Model}
}

func validateFallbacks(field string, list []Fallback) error {
	if len(list) > MaxFallbacks {
		return &FieldError{Field: field, Reason: fmt.Sprintf("has %d models, limit is %d", len(list), MaxFallbacks), Err: ErrTooLarge}
	}
	for i, f := range list {
		at := fmt.Sprintf("%s[%d]", field, i)
		if f.Model == "" {
			return invalid(at+".model", "is empty")
		}
		if len(f.Model) > MaxIDBytes {
			return invalid(at+".model", fmt.Sprintf("has %d bytes, limit is %d", len(f.Model), MaxIDBytes))
		}
		if len(f.Provider) > MaxIDBytes {
			return invalid(at+".provider", fmt.Sprintf("has %d bytes, limit is %d", len(f.Provider), MaxIDBytes))
		}
	}
	return nil
}
