package llm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Lister is a [Provider] that can list its models. Its errors are those of Complete. An endpoint without a list is an
// error of [KindRequest].
type Lister interface {
	Models(ctx context.Context) ([]string, error)
}

// ModelError is a model that is missing, or that the provider's list lacks, or a key that the provider refuses.
type ModelError struct {
	Provider string
	Model    string   // empty: missing
	Models   []string // the provider's, sorted; empty with Err
	Err      error    // of the provider's list, or nil
}

func (e *ModelError) Error() string {
	switch named := e.Model != ""; {
	case e.Err != nil && named:
		return fmt.Sprintf("%s gives no list of models: %v", e.Provider, e.Err)
	case e.Err != nil:
		return fmt.Sprintf("no model is named, and %s gives no list to choose from: %v", e.Provider, e.Err)
	case named:
		return fmt.Sprintf("%s has no model %q; it has %s", e.Provider, e.Model, ShortList(e.Models))
	}
	return fmt.Sprintf("no model is named: %s has %s", e.Provider, ShortList(e.Models))
}

// Unwrap returns the error of the provider's list.
func (e *ModelError) Unwrap() error { return e.Err }

// CheckModel refuses a missing model, and any model where the provider refuses the key, with a [*ModelError]. It accepts every
// model of a provider that is no [Lister]. It passes to warn, which may be nil, why a named model may not answer: a
// [*ModelError] where the list lacks it, as lists of gateways do, or the error of the list. It waits up to 10 s.
func CheckModel(ctx context.Context, p Provider, model string, warn func(error)) error {
	lister, ok := p.(Lister)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	names, err := lister.Models(ctx)
	failed, _ := errors.AsType[*Error](err)
	lacks := &ModelError{Provider: p.ID(), Model: model, Models: slices.Sorted(slices.Values(names)), Err: err}
	switch {
	case model == "", failed != nil && failed.Kind == KindAuth:
		return lacks
	case err == nil && slices.ContainsFunc(names, func(name string) bool { return name == model || strings.HasSuffix(name, "/"+model) }): // Gemini's begin with models/
		return nil
	case err == nil:
		err = lacks
	}
	if warn != nil {
		warn(err)
	}
	return nil
}

// ShortList is a list of names in one line, shortened.
func ShortList(names []string) string {
	if len(names) == 0 {
		return "none that may be named"
	}
	const most = 40
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}
