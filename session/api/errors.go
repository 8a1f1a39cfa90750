package api

import (
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
)

// Errors of the host; those of histories are in package events.
var (
	// ErrExists reports a session id that is in use.
	ErrExists = errors.New("session already exists")
	// ErrClosed reports a closed session, which accepts no more requests.
	ErrClosed = errors.New("session is closed")
	// ErrOpening reports a session whose creator has not appended all its first nodes.
	ErrOpening = errors.New("session is still opening")
	// ErrTurnRunning reports an operation that is not possible while a turn runs.
	ErrTurnRunning = errors.New("a turn is running")
	// ErrUnknownTurn reports a turn that the session's history does not have.
	ErrUnknownTurn = errors.New("no such turn")
	// ErrUnknownNode reports a node id that the session's graph does not have.
	ErrUnknownNode = errors.New("no such node")
	// ErrForbidden reports an operation that the caller has no right to.
	ErrForbidden = errors.New("not allowed")
	// ErrMemory reports a request that got no memory of the node within its time. It had no effect; the same request may succeed later.
	ErrMemory = errors.New("the memory of this node for this caller, or for all, is in use")
	// ErrDifferent reports an id that was used before with other content, or a key of another request.
	ErrDifferent = errors.New("id was used with other content")
)

// ErrSelfApproval reports an approval by a caller that requested the turn itself, where the operator forbids that. It
// is an [ErrForbidden] for any rights of the caller.
var ErrSelfApproval = fmt.Errorf("%w to approve a call of one's own turn", ErrForbidden)

// ErrRequest reports a request that cannot be decoded. It wraps [events.ErrMalformed], which alone reports stored
// data that cannot be decoded.
var ErrRequest = fmt.Errorf("request: %w", events.ErrMalformed)

// StaleBranchError reports an append whose required ancestor is not on the active path. Nothing was written.
type StaleBranchError struct {
	Required events.NodeID
	Leaf     events.NodeID // the current one; empty for an empty graph
}

func (e *StaleBranchError) Error() string {
	return fmt.Sprintf("stale branch: %s is not on the active path, the leaf is %q", e.Required, e.Leaf)
}

// OpenSessions is the subject of the error for an owner at its session limit. Waiting does not help: the owner has to
// close sessions.
const OpenSessions = "open sessions of their owner"

// StoredBytes is the subject of the error for an owner whose sessions have as many bytes as they may. Waiting does not help: the owner has
// to erase sessions.
const StoredBytes = "bytes in the sessions of one owner"

// LimitError reports a limit that is reached. Nothing was written; the same request may succeed later.
type LimitError struct {
	What  string // what the limit counts
	Limit int
	Err   error // the cause; may be nil
}

func (e *LimitError) Error() string {
	text := fmt.Sprintf("too many %s: the limit is %d", e.What, e.Limit)
	switch e.What {
	case OpenSessions:
		text += ", close one: DELETE /v1/sessions/{id}"
	case StoredBytes:
		text += ", erase some: lash-node erase"
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *LimitError) Unwrap() error { return e.Err }

// Errors of a session's protocol, tools and provider.
var (
	// ErrProtocol reports a request that the session's protocol refuses.
	ErrProtocol = errors.New("protocol error")
	// ErrCodeUnavailable reports a session without a code executor.
	ErrCodeUnavailable = errors.New("code execution is not available in this session")
	// ErrRuntimeStopped reports a code executor that exited.
	ErrRuntimeStopped = errors.New("code execution runtime exited unexpectedly")
	// ErrUnknownTool reports a tool that the session does not have.
	ErrUnknownTool = errors.New("no such tool")
	// ErrUnknownSource reports a tool source that no plugin registered.
	ErrUnknownSource = errors.New("no such tool source")
	// ErrNotAsked reports an answer without an approval request, or to a turn that has ended.
	ErrNotAsked = errors.New("no call waits for this approval")
	// ErrUnknownCall reports a call that does not exist or has not returned.
	ErrUnknownCall = errors.New("no such call has returned")
	// ErrResolved reports a pending call that already has its result.
	ErrResolved = errors.New("call was resolved before")
	// ErrCurrent reports an attempt of a session's own plugin to close the session.
	ErrCurrent = errors.New("the current session cannot be closed from within")
	// ErrProviderUnconfigured reports a session without a provider.
	ErrProviderUnconfigured = errors.New("provider is not configured")
	// ErrProviderUnavailable reports a session whose recorded provider the node does not have.
	ErrProviderUnavailable = errors.New("provider is not registered")
	// ErrProviderMismatch reports a session whose recorded provider has a different name than the configured one.
	ErrProviderMismatch = errors.New("provider mismatch")
	// ErrTurnFailed reports a turn whose pipeline failed; see [TurnFailedError].
	ErrTurnFailed = errors.New("turn failed")
)

// Errors of background tasks and monitors.
var (
	// ErrUnknownTask reports a background task that the session does not have, or that is not live.
	ErrUnknownTask = errors.New("no such task")
	// ErrTaskRunning reports the id of a live background task.
	ErrTaskRunning = errors.New("task is already running")
	// ErrTaskTaken reports a worker's request for a task that another worker runs.
	ErrTaskTaken = errors.New("another worker runs the task")
	// ErrUnknownMonitor reports a monitor that the session does not have.
	ErrUnknownMonitor = errors.New("no such monitor")
	// ErrMonitorTask reports an operation that is not possible for the task of a monitor: monitors stay in their
	// session.
	ErrMonitorTask = errors.New("task belongs to a monitor")
)

// Errors of plugins.
var (
	// ErrUnavailable reports a capability that the session does not have.
	ErrUnavailable = errors.New("unavailable in this session")
	// ErrBuilding reports plugins, or a tool catalogue, whose build is still running. The build takes long, or the
	// call comes from the code that builds.
	ErrBuilding = errors.New("still being built")
	// ErrUnknownAction reports an action that no plugin registered.
	ErrUnknownAction = errors.New("no such action")
	// ErrMissingSession reports an action that needs a session, called without one.
	ErrMissingSession = errors.New("action needs a session")
	// ErrUnexpectedSession reports an action that takes no session, called with one.
	ErrUnexpectedSession = errors.New("action takes no session")
	// ErrCompletion reports a direct completion without a reply.
	ErrCompletion = errors.New("completion failed")
	// ErrContextOverflow reports a direct completion whose prompt does not fit the model's window. It is an
	// [ErrCompletion].
	ErrContextOverflow = fmt.Errorf("%w: the prompt does not fit the model's context window", ErrCompletion)
	// ErrInvoke reports an action that ran and failed.
	ErrInvoke = errors.New("action failed")
	// ErrStateMoved reports a plugin state that another node changed meanwhile. The action may be repeated.
	ErrStateMoved = errors.New("plugin state moved meanwhile")
)

// GenerationError reports a tool state of another generation than the session's. Nothing changed.
type GenerationError struct{ Expected, Actual int64 }

func (e *GenerationError) Error() string {
	return fmt.Sprintf("tool state has generation %d, the session has %d", e.Expected, e.Actual)
}

// TurnFailedError is the reason why a turn's pipeline failed.
type TurnFailedError struct {
	Turn  events.TurnID
	Issue events.Issue
}

func (e *TurnFailedError) Error() string {
	return fmt.Sprintf("turn %s failed: %s: %s", e.Turn, e.Issue.Code, e.Issue.Message)
}

// Is reports [ErrTurnFailed], and the provider's error where that is the reason.
func (e *TurnFailedError) Is(target error) bool {
	return target == ErrTurnFailed || target == providerError(e.Issue.Code)
}

// TurnRejectedError reports a turn that [WhenBusyReject] refused because of another turn.
type TurnRejectedError struct {
	Turn events.TurnID
	By   events.TurnID // the turn that ran or waited
}

func (e *TurnRejectedError) Error() string {
	return fmt.Sprintf("turn %s was rejected: turn %s was in its way", e.Turn, e.By)
}

// Is reports [ErrTurnRunning].
func (e *TurnRejectedError) Is(target error) bool { return target == ErrTurnRunning }

// providerError returns the sentinel of a provider code; nil for other codes.
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

// The codes of turns without a usable provider.
const (
	CodeProviderUnconfigured = "provider_unconfigured"
	CodeProviderUnavailable  = "provider_unavailable"
	CodeProviderMismatch     = "provider_mismatch"
)

// ProviderError reports a session without a usable provider.
type ProviderError struct {
	Session  events.SessionID
	Provider string // recorded; empty: the session is unconfigured
	Actual   string // the name of the configured provider, where it differs
	Known    string // the providers of the node, sorted, separated by ", "; empty: none or unknown
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

// known lists the possible values of config.provider.
func (e *ProviderError) known() string {
	if e.Known == "" {
		return ""
	}
	return ": config.provider may be " + e.Known
}

// Code is the code of the issue that the error causes in a turn.
func (e *ProviderError) Code() string {
	switch {
	case e.Provider == "":
		return CodeProviderUnconfigured
	case e.Actual != "":
		return CodeProviderMismatch
	}
	return CodeProviderUnavailable
}

// Is reports the sentinel of the error's code.
func (e *ProviderError) Is(target error) bool { return target == providerError(e.Code()) }
