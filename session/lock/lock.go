// Package lock has the settings that an operator fixes for all sessions, callers and APIs. Hosts refuse requests that
// violate a lock. Nodes apply locks to sessions that are older than the lock.
package lock

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/pattern"
)

// Locks are the settings that sessions cannot change. The zero value locks nothing.
type Locks struct {
	// Plugins lists ids of plugins whose options only the node sets. A session's own options for them are ignored, and so
	// are the turn options of a protocol that one of them registers.
	Plugins []string
	// Providers, Models, Protocols and Environments are patterns of allowed names. In a pattern, * matches any text, including /.
	// Empty allows all names. A session without a provider or model gets the node's default, one without a protocol
	// [events.StandardProtocol] and one without an environment [events.DefaultEnvironment], which the patterns must match then.
	Providers, Models, Protocols, Environments []string
	MaxIterations                              int64         // maximum of model calls of a turn; 0 means no lock
	MaxOutputTokens                            int64         // maximum of output tokens of a reply; 0 means no lock
	LeastRetain                                time.Duration // minimum time that a session is kept after its last event; 0 means no lock
}

// file is the JSON form of Locks.
type file struct {
	Plugins         []string `json:"plugins"`
	Providers       []string `json:"providers"`
	Models          []string `json:"models"`
	Protocols       []string `json:"protocols"`
	Environments    []string `json:"environments"`
	MaxIterations   int64    `json:"max_iterations"`
	MaxOutputTokens int64    `json:"max_output_tokens"`
	LeastRetain     string   `json:"least_retain"`
}

// Parse reads a JSON object with the optional fields plugins, providers, models, protocols, environments (lists of strings),
// max_iterations, max_output_tokens (numbers) and least_retain (a duration such as "720h").
func Parse(r io.Reader) (Locks, error) {
	var f file
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return Locks{}, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Locks{}, errors.New("there is more behind the object")
	}
	l := Locks{
		Plugins: f.Plugins, Providers: f.Providers, Models: f.Models, Protocols: f.Protocols, Environments: f.Environments,
		MaxIterations: f.MaxIterations, MaxOutputTokens: f.MaxOutputTokens,
	}
	var err error
	if f.LeastRetain != "" {
		l.LeastRetain, err = time.ParseDuration(f.LeastRetain)
	}
	return l, errors.Join(err, l.Check())
}

// Check refuses invalid values.
func (l *Locks) Check() error {
	var errs []error
	for _, of := range []struct {
		name string
		list []string
	}{{"providers", l.Providers}, {"models", l.Models}, {"protocols", l.Protocols}, {"environments", l.Environments}} {
		for _, p := range of.list {
			if p == "" {
				errs = append(errs, fmt.Errorf("%s: \"\" is no pattern", of.name))
			}
		}
	}
	for _, id := range l.Plugins {
		errs = append(errs, events.CheckToken("plugins", id))
	}
	for _, limit := range []struct {
		name string
		n    int64
	}{{"max iterations", l.MaxIterations}, {"max output tokens", l.MaxOutputTokens}, {"least retain", int64(l.LeastRetain)}} {
		if limit.n < 0 {
			errs = append(errs, fmt.Errorf("%s: is negative", limit.name))
		}
	}
	return errors.Join(errs...)
}

// CheckOwn refuses default providers and models of a node that no session may name.
func (l *Locks) CheckOwn(provider, model string) error {
	var errs []error
	if !anyOf(l.Providers, provider) {
		errs = append(errs, fmt.Errorf("the node's own provider %s is not among the locks' providers %q", provider, l.Providers))
	}
	if !anyOf(l.Models, model) {
		errs = append(errs, fmt.Errorf("the node's own model %s is not among the locks' models %q", model, l.Models))
	}
	return errors.Join(errs...)
}

// Config applies the locks to a configuration: it sets missing limits. A violation is an [*events.FieldError] that is
// [api.ErrForbidden].
func (l *Locks) Config(c events.Config) (events.Config, error) {
	errs := []error{
		among("config.provider", c.Provider, l.Providers), among("config.model", c.Model, l.Models), among("config.protocol", cmp.Or(c.Protocol, events.StandardProtocol), l.Protocols),
		l.Environment("config.environment", c.Environment),
		atMost("config.max_iterations", &c.MaxIterations, l.MaxIterations), atMost("config.max_output_tokens", &c.MaxOutputTokens, l.MaxOutputTokens),
	}
	for i, f := range c.Fallbacks {
		field := fmt.Sprintf("config.fallbacks[%d]", i)
		errs = append(errs, among(field+".provider", f.Provider, l.Providers), among(field+".model", f.Model, l.Models))
	}
	if least := l.LeastRetain.Milliseconds(); c.RetainMillis > 0 && c.RetainMillis < least {
		errs = append(errs, broken("config.retain_ms", "is %d, least is %d", c.RetainMillis, least))
	}
	return c, errors.Join(errs...)
}

// Environment refuses the name of an environment that is locked; empty is [events.DefaultEnvironment].
func (l *Locks) Environment(field, name string) error {
	return among(field, cmp.Or(name, events.DefaultEnvironment), l.Environments)
}

// Generation refuses settings of a turn that violate a lock. The configuration applies to missing settings.
func (l *Locks) Generation(field string, g events.Generation) error {
	if g.MaxOutputTokens == 0 {
		return nil
	}
	return atMost(field+".max_output_tokens", &g.MaxOutputTokens, l.MaxOutputTokens)
}

// Plugin reports whether only the node sets the options of a plugin.
func (l *Locks) Plugin(id string) bool { return slices.Contains(l.Plugins, id) }

// ProtocolOptions refuses a turn's options for the protocol of a locked plugin.
func (l *Locks) ProtocolOptions(field, plugin string, options []byte) error {
	if len(options) > 0 && l.Plugin(plugin) {
		return broken(field, "are those of plugin %s, the node's alone", plugin)
	}
	return nil
}

// Options refuses options for locked plugins.
func (l *Locks) Options(field string, options map[string]string) error {
	for _, id := range l.Plugins {
		if _, ok := options[id]; ok {
			return broken(field+"."+id, "are the node's alone")
		}
	}
	return nil
}

// Open returns the effective options, without those of locked plugins.
func (l *Locks) Open(options map[string]string) map[string]string {
	if l.Options("", options) == nil {
		return options
	}
	open := make(map[string]string, len(options))
	for id, o := range options {
		if !l.Plugin(id) {
			open[id] = o
		}
	}
	return open
}

// AllowedProviders are those of the names that sessions may name, in their order.
func (l *Locks) AllowedProviders(names []string) []string { return allowed(l.Providers, names) }

// AllowedModels are those of the names that sessions may name, in their order.
func (l *Locks) AllowedModels(names []string) []string { return allowed(l.Models, names) }

func allowed(patterns, names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !anyOf(patterns, name) })
}

func among(field, name string, patterns []string) error {
	if anyOf(patterns, name) {
		return nil
	}
	return broken(field, "is %q, want one of %q", name, patterns)
}

// anyOf reports whether name is empty or matches one of the patterns.
func anyOf(patterns []string, name string) bool {
	return name == "" || len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return pattern.Match(p, name, "") })
}

// atMost sets a missing limit to the lock's.
func atMost(field string, n *int64, most int64) error {
	switch {
	case most > 0 && *n == 0:
		*n = most
	case most > 0 && *n > most:
		return broken(field, "is %d, limit is %d", *n, most)
	}
	return nil
}

func broken(field, reason string, args ...any) error {
	return &events.FieldError{Field: field, Reason: fmt.Sprintf(reason, args...) + ", as the operator locked it", Err: api.ErrForbidden}
}
