package llm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	modelsWait      = 10 * time.Second // for a provider's list of models
	maxListedModels = 40
)

// ModelError is a model that no call can name: there is none, the provider's list lacks it, or the provider refuses the
// key.
type ModelError struct {
	Provider string
	Model    string   // empty: missing
	Models   []string // the provider's, sorted; empty with Err
	Err      error    // of the provider's list, or nil
}

func (e *ModelError) Error() string {
	switch {
	case e.Err != nil && e.Model == "":
		return fmt.Sprintf("no model is named, and %s gives no list to choose from: %v", e.Provider, e.Err)
	case e.Err != nil:
		return fmt.Sprintf("%s gives no list of models: %v", e.Provider, e.Err)
	case e.Model == "":
		return fmt.Sprintf("no model is named: %s has %s", e.Provider, ShortList(e.Models))
	}
	return fmt.Sprintf("%s has no model %q; it has %s", e.Provider, e.Model, ShortList(e.Models))
}

// Unwrap returns the error of the provider's list.
func (e *ModelError) Unwrap() error { return e.Err }

// CheckModel refuses a missing model, one that the provider's list lacks, and any model where the provider refuses the
// key. It accepts every model of a provider that is no [Lister]. Where the list fails for another reason, it accepts a named
// model, because the provider may be down, and passes the error to unchecked, which may be nil. It waits up to 10 s.
// Errors: a [*ModelError].
func CheckModel(ctx context.Context, p Provider, model string, unchecked func(error)) error {
	lister, ok := p.(Lister)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, modelsWait)
	defer cancel()
	names, err := lister.Models(ctx)
	failed, _ := errors.AsType[*Error](err)
	switch {
	case model != "" && err != nil && (failed == nil || failed.Kind != KindAuth):
		if unchecked != nil {
			unchecked(err)
		}
		return nil
	case model != "" && slices.Contains(names, model):
		return nil
	}
	return &ModelError{Provider: p.ID(), Model: model, Models: slices.Sorted(slices.Values(names)), Err: err}
}

// ShortList is a list of names in one line, shortened.
func ShortList(names []string) string {
	if len(names) == 0 {
		return "none that may be named"
	}
	if more := len(names) - maxListedModels; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListedModels], ", "), more)
	}
	return strings.Join(names, ", ")
}
