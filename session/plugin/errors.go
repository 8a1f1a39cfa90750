package plugin

import (
	"errors"
	"fmt"
)

// Errors of plugins and their stacks.
var (
	// ErrUnavailable is a capability that the session does not have.
	ErrUnavailable = errors.New("unavailable in this session")
	// ErrRegistration is a stack that can never work.
	ErrRegistration = errors.New("plugin registration")
	// ErrSnapshot is a state that could not be saved or restored.
	ErrSnapshot = errors.New("plugin snapshot")
	// ErrBuilding are plugins, or their tool catalogue, that are being built, by somebody who takes long or asks from within.
	ErrBuilding = errors.New("still being built")
	// ErrUnknownAction is an action that no plugin registered.
	ErrUnknownAction = errors.New("no such action")
	// ErrMissingSession is an action that needs a session and got none.
	ErrMissingSession = errors.New("action needs a session")
	// ErrUnexpectedSession is an action that takes no session and got one.
	ErrUnexpectedSession = errors.New("action takes no session")
	// ErrInvoke is an action that ran and did not bring what was asked.
	ErrInvoke = errors.New("action failed")
	// ErrStateMoved is a plugin's state that another node changed meanwhile. The action may be tried again.
	ErrStateMoved = errors.New("plugin state moved meanwhile")
)

// HookError is a hook that failed: it returned an error or garbage, panicked, or hung.
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
