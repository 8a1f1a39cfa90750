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
	// ErrNoSource is a tool source that the session has and no plugin of this node registers: another node may.
	ErrNoSource = fmt.Errorf("%w: a tool source is missing on this node", ErrUnavailable)
	// ErrRegistration is a stack that can never work.
	ErrRegistration = errors.New("plugin registration")
	// ErrSnapshot is a state that could not be saved or restored.
	ErrSnapshot = errors.New("plugin snapshot")
	// ErrBuilding are plugins, or their tool catalogue, that are being built, by somebody who takes long or asks from within.
	ErrBuilding = api.ErrBuilding
	// ErrUnknownAction is an action that no plugin registered.
	ErrUnknownAction = api.ErrUnknownAction
	// ErrMissingSession is an action that needs a session and got none.
	ErrMissingSession = api.ErrMissingSession
	// ErrUnexpectedSession is an action that takes no session and got one.
	ErrUnexpectedSession = api.ErrUnexpectedSession
	// ErrInvoke is an action that ran and did not bring what was asked.
	ErrInvoke = api.ErrInvoke
	// ErrStateMoved is a plugin's state that another node changed meanwhile. The action may be tried again.
	ErrStateMoved = api.ErrStateMoved
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
