package plugin

import (
	"errors"
	"fmt"

	"github.com/lash-go/lash/session/api"
)

// Errors of plugins and their stacks.
var (
	// ErrUnavailable is a capability that the session does not have.
	ErrUnavailable = api.ErrUnavailable
	// ErrNoSource is a tool source that the session has and that no plugin of this node registers. Another node may
	// register it.
	ErrNoSource = fmt.Errorf("%w: a tool source is missing on this node", ErrUnavailable)
	// ErrWaits reports a call that waits for an answer of people: it has no result, and the answer runs it again.
	ErrWaits = errors.New("the call waits for an answer")
	// ErrRegistration is a stack of plugins that cannot work.
	ErrRegistration = errors.New("plugin registration")
	// ErrSnapshot is a plugin state that could not be saved or restored.
	ErrSnapshot = errors.New("plugin snapshot")
	// ErrBuilding means that the plugins, or their tool catalogue, are still being built.
	// A plugin also gets it when it asks for the catalogue that it contributes to.
	ErrBuilding = api.ErrBuilding
)

// HookError is a failed hook: it returned an error or invalid output, panicked, or exceeded its time.
type HookError struct {
	Plugin string
	Point  string
	Panic  bool
	Hung   bool
	Err    error
}

func (e *HookError) Error() string {
	switch {
	case e.Panic:
		return fmt.Sprintf("plugin %s: %s hook panicked: %v", e.Plugin, e.Point, e.Err)
	case e.Hung:
		return fmt.Sprintf("plugin %s: %s hook hung: %v", e.Plugin, e.Point, e.Err)
	}
	return fmt.Sprintf("plugin %s: %s hook: %v", e.Plugin, e.Point, e.Err)
}

func (e *HookError) Unwrap() error { return e.Err }

func unavailable(what string) error { return fmt.Errorf("%s: %w", what, ErrUnavailable) }
