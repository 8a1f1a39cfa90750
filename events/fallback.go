package events

import (
	"cmp"
	"fmt"
)

// MaxFallbacks is how many models a configuration names for the case that the ones before fail.
const MaxFallbacks = 8

// Fallback is a model that a turn goes on with where those before it fail.
type Fallback struct {
	Provider string `msgpack:"p,omitempty"` // provider id; empty: the configuration's
	Model    string `msgpack:"m"`
}

// FallbackTo is the fallback that a turn goes on with, from a failed call to the turn's end.
type FallbackTo struct {
	Place    int64  `msgpack:"n"`           // in the list of the configuration, from 1; above the place of the failed one
	Provider string `msgpack:"p,omitempty"` // provider id; empty: the node's default
	Model    string `msgpack:"m"`
}

// IsZero reports whether there is none.
func (f FallbackTo) IsZero() bool { return f == FallbackTo{} }

// Over is a configuration with the fallback in the place of its model.
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

// FallbackAfter is the fallback behind that of a place, 0 for the first one; zero where there is none.
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
