package api

import (
	"context"
	"errors"
	"slices"

	"github.com/lash-go/lash/events"
)

// Class groups errors by the reaction that the receiver has.
type Class string

// Values of [Class].
const (
	ClassInvalid     Class = "invalid"     // the request is wrong, and a repeat fails too
	ClassTooLarge    Class = "too_large"   // likewise, by its size
	ClassNotFound    Class = "not_found"   // it names something that does not exist
	ClassConflict    Class = "conflict"    // the session's state does not allow the request
	ClassFailed      Class = "failed"      // the operation was tried, and failed
	ClassUnavailable Class = "unavailable" // not on this node, or not now
	ClassBusy        Class = "busy"        // a limit is reached: the same request may succeed later
	ClassForbidden   Class = "forbidden"   // the caller has no right to it
	ClassStorage     Class = "storage"     // the servers have no room: nothing was stored
	ClassUnknown     Class = "unknown"     // the outcome is unknown: a repeat is safe, except of an action
	ClassLost        Class = "lost"        // data of the session is lost: it fails until an operator acts
	ClassInternal    Class = "internal"    // a fault of the service
)

// CodeInternal is the code of every error without a code of its own.
const CodeInternal = "internal"

// coded maps a sentinel to its wire form.
type coded struct {
	err   error
	code  string
	class Class
}

// codes is the one table of sentinels with a wire form; errors with data have their own table. For an error that
// matches several rows the first row counts. Codes are part of the wire format: they are never renamed and never
// reused.
//
//nolint:gochecknoglobals // a read-only table
var codes = []coded{
	{events.ErrTooLarge, "too_large", ClassTooLarge},
	{ErrMemory, "memory_in_use", ClassBusy},
	{events.ErrInvalidID, "invalid_id", ClassInvalid},
	{ErrRequest, "malformed_request", ClassInvalid},
	{events.ErrMalformed, "malformed", ClassInternal}, // stored data is damaged
	{ErrExists, "session_exists", ClassConflict},
	{ErrClosed, "session_closed", ClassConflict},
	{ErrOpening, "session_opening", ClassConflict},
	{ErrTurnRunning, "turn_running", ClassConflict},
	{ErrSelfApproval, "self_approval", ClassForbidden},
	{ErrForbidden, "forbidden", ClassForbidden},
	{ErrUnknownTurn, "unknown_turn", ClassNotFound},
	{ErrUnknownNode, "unknown_node", ClassNotFound},
	{ErrUnknownBlob, "unknown_blob", ClassNotFound},
	{ErrDifferent, "different_content", ClassConflict},
	{ErrProtocol, "protocol", ClassInvalid},
	{ErrCodeUnavailable, "code_unavailable", ClassUnavailable},
	{ErrRuntimeStopped, "runtime_stopped", ClassFailed},
	{ErrUnknownTool, "unknown_tool", ClassNotFound},
	{ErrUnknownSource, "unknown_source", ClassNotFound},
	{ErrNotAsked, "not_asked", ClassNotFound},
	{ErrUnknownCall, "unknown_call", ClassNotFound},
	{ErrResolved, "resolved", ClassConflict},
	{ErrCurrent, "current_session", ClassInvalid},
	{ErrTurnFailed, "turn_failed", ClassFailed},
	{ErrProviderUnconfigured, CodeProviderUnconfigured, ClassUnavailable},
	{ErrProviderUnavailable, CodeProviderUnavailable, ClassUnavailable},
	{ErrProviderMismatch, CodeProviderMismatch, ClassUnavailable},
	{ErrUnknownTask, "unknown_task", ClassNotFound},
	{ErrTaskRunning, "task_running", ClassConflict},
	{ErrTaskTaken, "task_taken", ClassConflict},
	{ErrUnknownMonitor, "unknown_monitor", ClassNotFound},
	{ErrMonitorTask, "monitor_task", ClassInvalid},
	{ErrUnknownAction, "unknown_action", ClassNotFound},
	{ErrMissingSession, "missing_session", ClassInvalid},
	{ErrUnexpectedSession, "unexpected_session", ClassInvalid},
	{ErrContextOverflow, "context_overflow", ClassFailed},
	{ErrCompletion, "completion_failed", ClassFailed},
	{ErrInvoke, "action_failed", ClassFailed},
	{ErrStateMoved, "plugin_state_moved", ClassConflict},
	{ErrBuilding, "building", ClassUnavailable},
	{ErrUnavailable, "unavailable", ClassUnavailable},
	{events.ErrNoSession, "no_session", ClassNotFound},
	{events.ErrSealed, "session_sealed", ClassConflict},
	{events.ErrFutureVersion, "future_version", ClassUnavailable},
	{events.ErrLocked, "key_missing", ClassUnavailable},
	{events.ErrInvalid, "invalid", ClassInvalid},
	{events.ErrStorage, "storage_full", ClassStorage},
	{events.ErrOutcomeUnknown, "outcome_unknown", ClassUnknown},
	{context.DeadlineExceeded, "deadline_exceeded", ClassUnknown},
	{context.Canceled, "cancelled", ClassUnknown},
}

// maxMessage limits the text of an error on the wire, in bytes.
const maxMessage = 4 << 10

// ErrorBody is the wire form of an error, in msgpack and in JSON.
type ErrorBody struct {
	Code    string            `json:"code" msgpack:"c"`
	Message string            `json:"message" msgpack:"m"`
	Details map[string]string `json:"details,omitempty" msgpack:"d,omitempty"` // of errors with data; numbers in decimal
}

// IsZero reports whether the body has no error.
func (b ErrorBody) IsZero() bool { return b.Code == "" }

// Code returns an error's code and class. An error that the table does not have is [CodeInternal].
func Code(err error) (code string, class Class) {
	if row, _ := detail(err); row.code != "" {
		return row.code, row.class
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code, c.class
		}
	}
	return CodeInternal, ClassInternal
}

// EncodeError returns the wire form of a non-nil error, with its innermost text. For an error that the table does not have it has no text,
// which belongs in the server's log.
func EncodeError(err error) ErrorBody {
	code, _ := Code(err)
	if code == CodeInternal {
		return ErrorBody{Code: code, Message: "internal error"}
	}
	_, data := detail(err)
	return ErrorBody{Code: code, Message: clip(sentence(err).Error() + advice(err)), Details: data}
}

// advice is what an operator has to do, where the request fails until then.
func advice(err error) string {
	lost, ok := errors.AsType[*events.LostError](err)
	switch {
	case !ok:
		return ""
	case lost.From == 1:
		return ": lash-node erase " + string(lost.Session)
	}
	return ": lash-node fork " + string(lost.Session)
}

// sentence is the error inside err with the same code and data, and the least context: "session s: no such session" of
// "submit turn t: sync s: session s: no such session". The operations around it belong in the server's log.
func sentence(err error) error {
	code, _ := Code(err)
	_, data := detail(err)
	for {
		inner := errors.Unwrap(err)
		if inner == nil || slices.ContainsFunc(codes, func(c coded) bool { return c.err == inner }) { //nolint:errorlint // the sentinel itself has no context
			return err
		}
		innerCode, _ := Code(inner)
		_, innerData := detail(inner)
		if innerCode != code || (innerData == nil) != (data == nil) {
			return err
		}
		err = inner
	}
}

func clip(text string) string { return events.Clip(text, maxMessage, "") }

// RemoteError is an error that came over the wire. [errors.Is] and [errors.AsType] find the original error in it.
type RemoteError struct {
	Body  ErrorBody
	Class Class
	err   error // nil: unknown to this program, or to the server
}

func (e *RemoteError) Error() string { return e.Body.Message }
func (e *RemoteError) Unwrap() error { return e.err }

// DecodeError is the inverse of [EncodeError]. A code that this program does not know is [ClassInternal].
func DecodeError(b ErrorBody) *RemoteError {
	e := &RemoteError{Body: b, Class: ClassInternal}
	at := slices.IndexFunc(codes, func(c coded) bool { return c.code == b.Code })
	if at >= 0 {
		e.Class, e.err = codes[at].class, codes[at].err
	}
	for _, row := range withData {
		if typed := row.decode(b, e.err); typed != nil {
			e.err = typed
			if row.code != "" {
				e.Class = row.class
			}
			break
		}
	}
	return e
}
