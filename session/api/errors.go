package api

import (
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
)

// Errors of the host; those of histories are in package events.
var (
	// ErrExists is a session id that is taken.
	ErrExists = errors.New("session already exists")
	// ErrClosed is a session that takes no more.
	ErrClosed = errors.New("session is closed")
	// ErrOpening is a session whose creator is still appending its first nodes, or died over it.
	ErrOpening = errors.New("session is still opening")
	// ErrTurnRunning is an operation that waits for the running turn to end.
	ErrTurnRunning = errors.New("a turn is running")
	// ErrUnknownTurn is a turn that the session never heard of.
	ErrUnknownTurn = errors.New("no such turn")
	// ErrUnknownNode is a node id that the session's graph does not have.
	ErrUnknownNode = errors.New("no such node")
	// ErrForbidden is an operation that the caller has no right to.
	ErrForbidden = errors.New("not allowed")
	// ErrDifferent is an id used a second time with other content, or a key for another request.
	ErrDifferent = errors.New("id was used with other content")
)

// ErrSelfApproval is an approval by a caller that asked for the turn, where the operator forbids that. It is an [ErrForbidden]
// whatever rights the caller has.
var ErrSelfApproval = fmt.Errorf("%w to approve what one asked for oneself", ErrForbidden)

// ErrRequest is a request that cannot be decoded. It wraps [events.ErrMalformed],
// which by itself is of what is stored.
var ErrRequest = fmt.Errorf("request: %w", events.ErrMalformed)

// StaleBranchError is an append whose required ancestor is not on the active path. Nothing was written.
type StaleBranchError struct {
	Required events.NodeID
	Leaf     events.NodeID // the current one; empty for an empty graph
}

func (e *StaleBranchError) Error() string {
	return fmt.Sprintf("stale branch: %s is not on the active path, the leaf is %q", e.Required, e.Leaf)
}

// OpenSessions is what an owner has too many of who is at its limit. They do not become fewer by themselves.
const OpenSessions = "open sessions of their owner"

// LimitError is a door that takes no more just now. Nothing was written; the same request may succeed later.
type LimitError struct {
	What  string // there are as many of it as may be
	Limit int
	Err   error // more about it; may be nil
}

func (e *LimitError) Error() string {
	text := fmt.Sprintf("too many %s: the limit is %d", e.What, e.Limit)
	if e.What == OpenSessions {
		text += ", close one: DELETE /v1/sessions/{id}"
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *LimitError) Unwrap() error { return e.Err }

// More errors of sessions (host specification 11.3).
var (
	// ErrProtocol is something that the session's protocol refuses.
	ErrProtocol = errors.New("protocol error")
	// ErrCodeUnavailable is a session in which nothing runs code.
	ErrCodeUnavailable = errors.New("code execution is not available in this session")
	// ErrRuntimeStopped is a code executor that is gone.
	ErrRuntimeStopped = errors.New("code execution runtime exited unexpectedly")
	// ErrUnknownTool is a tool that the session does not have.
	ErrUnknownTool = errors.New("no such tool")
	// ErrUnknownSource is a tool state that names a source nobody registered.
	ErrUnknownSource = errors.New("no such tool source")
	// ErrNotAsked is an answer to a question that nobody asked, or whose turn has ended.
	ErrNotAsked = errors.New("no call waits for this approval")
	// ErrUnknownCall is a call that has not returned, or never was.
	ErrUnknownCall = errors.New("no such call has returned")
	// ErrResolved is a pending call that was resolved before.
	ErrResolved = errors.New("call was resolved before")
	// ErrCurrent is a session that its own plugin wants to close.
	ErrCurrent = errors.New("the current session cannot be closed from within")
	// ErrProviderUnconfigured is a session for which nothing names a provider.
	ErrProviderUnconfigured = errors.New("provider is not configured")
	// ErrProviderUnavailable is a session whose recorded provider the node does not have.
	ErrProviderUnavailable = errors.New("provider is not registered")
	// ErrProviderMismatch is a session whose recorded provider calls itself something else.
	ErrProviderMismatch = errors.New("provider mismatch")
	// ErrTurnFailed is a turn whose pipeline failed; see [TurnFailedError].
	ErrTurnFailed = errors.New("turn failed")
)

// Errors of background tasks and monitors.
var (
	// ErrUnknownTask is a background task that the session does not have, or not as a live one.
	ErrUnknownTask = errors.New("no such task")
	// ErrTaskRunning is the id of a background task that has not ended.
	ErrTaskRunning = errors.New("task is already running")
	// ErrTaskTaken is a worker's word about a task that it does not run, or not any more.
	ErrTaskTaken = errors.New("task is in other hands")
	// ErrUnknownMonitor is a monitor that the session does not have.
	ErrUnknownMonitor = errors.New("no such monitor")
	// ErrMonitorTask is the task of a monitor where only others are possible: monitors stay in their session.
	ErrMonitorTask = errors.New("task belongs to a monitor")
)

// Errors of what plugins do for a session.
var (
	// ErrUnavailable is a capability that the session does not have.
	ErrUnavailable = errors.New("unavailable in this session")
	// ErrBuilding are plugins, or their tool catalogue, that are being built, by somebody who takes long or asks from within.
	ErrBuilding = errors.New("still being built")
	// ErrUnknownAction is an action that no plugin registered.
	ErrUnknownAction = errors.New("no such action")
	// ErrMissingSession is an action that needs a session and got none.
	ErrMissingSession = errors.New("action needs a session")
	// ErrUnexpectedSession is an action that takes no session and got one.
	ErrUnexpectedSession = errors.New("action takes no session")
	// ErrCompletion is a model that was asked outside of turns, and gave no reply.
	ErrCompletion = errors.New("completion failed")
	// ErrInvoke is an action that ran and did not bring what was asked.
	ErrInvoke = errors.New("action failed")
	// ErrStateMoved is a plugin's state that another node changed meanwhile. The action may be tried again.
	ErrStateMoved = errors.New("plugin state moved meanwhile")
)

// GenerationError is a tool state made from another generation than the session's. Nothing changed.
type GenerationError struct{ Expected, Actual int64 }

func (e *GenerationError) Error() string {
	return fmt.Sprintf("tool state has generation %d, the session has %d", e.Expected, e.Actual)
}

// TurnFailedError says why a turn's pipeline failed.
type TurnFailedError struct {
	Turn  events.TurnID
	Issue events.Issue
}

func (e *TurnFailedError) Error() string {
	return fmt.Sprintf("turn %s failed: %s: %s", e.Turn, e.Issue.Code, e.Issue.Message)
}

// Is makes it an [ErrTurnFailed], and the provider's error where that is why.
func (e *TurnFailedError) Is(target error) bool {
	return target == ErrTurnFailed || target == providerError(e.Issue.Code)
}

// TurnRejectedError is a turn that was refused, as [WhenBusyReject] asked, because of another.
type TurnRejectedError struct {
	Turn events.TurnID
	By   events.TurnID // that ran, or waited
}

func (e *TurnRejectedError) Error() string {
	return fmt.Sprintf("turn %s was rejected: turn %s was in its way", e.Turn, e.By)
}

// Is makes it an [ErrTurnRunning].
func (e *TurnRejectedError) Is(target error) bool { return target == ErrTurnRunning }

// providerError is what a code of the provider's says; nil for other codes.
func providerError(code string) error {
	switch code {
	case CodeProviderUnconfigured:
		return ErrProviderUnconfigured
	case CodeProviderUnavailable:
		return ErrProviderUnavailable
	case CodeProviderMismatch:
		return ErrProviderMismatch
	}
	return nil
}

// The codes of turns whose provider cannot be had.
const (
	CodeProviderUnconfigured = "provider_unconfigured"
	CodeProviderUnavailable  = "provider_unavailable"
	CodeProviderMismatch     = "provider_mismatch"
)

// ProviderError is a session whose provider cannot be had.
type ProviderError struct {
	Session  events.SessionID
	Provider string // recorded; empty: the session is unconfigured
	Actual   string // what the configured one calls itself, where that is another
	Known    string // the providers that the node has, sorted, with ", " between; empty: none, or not known
}

func (e *ProviderError) Error() string {
	switch {
	case e.Provider == "":
		return fmt.Sprintf("provider is not configured for session %s%s", e.Session, e.known())
	case e.Actual != "":
		return fmt.Sprintf("provider mismatch for session %s: recorded %q does not match live %q", e.Session, e.Provider, e.Actual)
	}
	return fmt.Sprintf("provider %q is not registered for session %s%s", e.Provider, e.Session, e.known())
}

// known says what config.provider may be.
func (e *ProviderError) known() string {
	if e.Known == "" {
		return ""
	}
	return ": config.provider may be " + e.Known
}

// Code is the code of the issue that it makes of a turn.
func (e *ProviderError) Code() string {
	switch {
	case e.Provider == "":
		return CodeProviderUnconfigured
	case e.Actual != "":
		return CodeProviderMismatch
	}
	return CodeProviderUnavailable
}

// Is makes it the one of the provider's errors that it is.
func (e *ProviderError) Is(target error) bool { return target == providerError(e.Code()) }
