package api

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/lash-go/lash/events"
)

// Class groups errors by what their receiver can do about them.
type Class string

// The classes.
const (
	ClassInvalid     Class = "invalid"     // the request is wrong, and will be
	ClassTooLarge    Class = "too_large"   // likewise, by its size
	ClassNotFound    Class = "not_found"   // it names something that does not exist
	ClassConflict    Class = "conflict"    // the session is not as the request wants it
	ClassFailed      Class = "failed"      // what was asked for was tried, and failed
	ClassUnavailable Class = "unavailable" // not here, or not now
	ClassBusy        Class = "busy"        // there is too much of it now: the same may succeed later
	ClassUnknown     Class = "unknown"     // nobody knows whether it was done: asking the same again is safe but for actions
	ClassInternal    Class = "internal"    // it is no fault of the request
)

// CodeInternal is the code of every error that has none of its own.
const CodeInternal = "internal"

// coded is a sentinel as it travels.
type coded struct {
	err   error
	code  string
	class Class
}

// codes is the one table of errors that doors know. An error that is several
// of them is the first. Codes are part of the wire format: they are never
// renamed, never reused.
//
//nolint:gochecknoglobals // a read-only table
var codes = []coded{
	{events.ErrTooLarge, "too_large", ClassTooLarge},
	{events.ErrInvalidID, "invalid_id", ClassInvalid},
	{ErrRequest, "malformed_request", ClassInvalid},
	{events.ErrMalformed, "malformed", ClassInternal}, // what is stored is damaged
	{ErrExists, "session_exists", ClassConflict},
	{ErrClosed, "session_closed", ClassConflict},
	{ErrOpening, "session_opening", ClassConflict},
	{ErrTurnRunning, "turn_running", ClassConflict},
	{ErrUnknownTurn, "unknown_turn", ClassNotFound},
	{ErrUnknownNode, "unknown_node", ClassNotFound},
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
	{ErrInvoke, "action_failed", ClassFailed},
	{ErrStateMoved, "plugin_state_moved", ClassConflict},
	{ErrBuilding, "building", ClassUnavailable},
	{ErrUnavailable, "unavailable", ClassUnavailable},
	{ErrUnknownOperation, "unknown_operation", ClassNotFound},
	{events.ErrNoSession, "no_session", ClassNotFound},
	{events.ErrSealed, "session_sealed", ClassConflict},
	{events.ErrFutureVersion, "future_version", ClassUnavailable},
	{events.ErrInvalid, "invalid", ClassInvalid},
	{events.ErrOutcomeUnknown, "outcome_unknown", ClassUnknown},
	{context.DeadlineExceeded, "deadline_exceeded", ClassUnknown},
	{context.Canceled, "cancelled", ClassUnknown},
}

// The codes of errors that have data and no sentinel.
const (
	codeStaleBranch = "stale_branch"
	codeGeneration  = "generation"
	codeConflict    = "moved"
	codeCursor      = "cursor"
	codeRejected    = "turn_rejected"
	codeErased      = "session_erased"
	codeLimit       = "limit"
)

// maxMessage bounds the text of an error that travels, in bytes.
const maxMessage = 4 << 10

// ErrorBody is an error as it travels, in msgpack and in JSON.
type ErrorBody struct {
	Code    string            `json:"code" msgpack:"c"`
	Message string            `json:"message" msgpack:"m"`
	Details map[string]string `json:"details,omitempty" msgpack:"d,omitempty"` // of errors with data; numbers in decimal
}

// IsZero reports whether there is no error.
func (b ErrorBody) IsZero() bool { return b.Code == "" }

// Code is an error's code and class. An error that the table does not have is [CodeInternal].
func Code(err error) (code string, class Class) {
	if code := codeOf(err); code != "" {
		return code, classOf(code)
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code, c.class
		}
	}
	return CodeInternal, ClassInternal
}

// codeOf is the code of an error that has data and no sentinel; empty for others.
func codeOf(err error) string {
	switch {
	case isType[*StaleBranchError](err):
		return codeStaleBranch
	case isType[*GenerationError](err):
		return codeGeneration
	case isType[*events.ConflictError](err):
		return codeConflict
	case isType[*CursorError](err):
		return codeCursor
	case isType[*TurnRejectedError](err):
		return codeRejected
	case isType[*events.ErasedError](err):
		return codeErased
	case isType[*LimitError](err):
		return codeLimit
	}
	return ""
}

// classOf is the class of a code that [codeOf] gives.
func classOf(code string) Class {
	switch code {
	case codeErased:
		return ClassNotFound
	case codeLimit:
		return ClassBusy
	}
	return ClassConflict
}

func isType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// EncodeError is what a door says of an error, which is not nil. Of an error
// that the table does not have it says nothing: that is for the door's log.
func EncodeError(err error) ErrorBody {
	code, _ := Code(err)
	if code == CodeInternal {
		return ErrorBody{Code: code, Message: "internal error"}
	}
	return ErrorBody{Code: code, Message: clip(err.Error()), Details: details(err)}
}

func clip(text string) string { return events.Clip(text, maxMessage, "") }

// details are the fields of the error with data that err is.
func details(err error) map[string]string {
	if e, ok := errors.AsType[*StaleBranchError](err); ok {
		return map[string]string{"required": clip(string(e.Required)), "leaf": clip(string(e.Leaf))}
	}
	if e, ok := errors.AsType[*GenerationError](err); ok {
		return map[string]string{"expected": decimal(e.Expected), "actual": decimal(e.Actual)}
	}
	if e, ok := errors.AsType[*events.ConflictError](err); ok {
		return map[string]string{"session": string(e.Session), "expected": decimal(e.Expected), "last": decimal(e.Last)}
	}
	if e, ok := errors.AsType[*CursorError](err); ok {
		return map[string]string{"session": string(e.Session), "cursor": decimal(e.Cursor), "last": decimal(e.Last)}
	}
	if e, ok := errors.AsType[*TurnRejectedError](err); ok {
		return map[string]string{"turn": string(e.Turn), "by": string(e.By)}
	}
	if e, ok := errors.AsType[*events.ErasedError](err); ok {
		return map[string]string{"session": string(e.Session), "at": decimal(e.At), "reason": clip(e.Reason)}
	}
	if e, ok := errors.AsType[*LimitError](err); ok {
		return map[string]string{"what": e.What, "limit": strconv.Itoa(e.Limit)}
	}
	if e, ok := errors.AsType[*TurnFailedError](err); ok {
		return map[string]string{"turn": string(e.Turn), "issue_kind": e.Issue.Kind, "issue_code": e.Issue.Code, "issue_message": clip(e.Issue.Message)}
	}
	if e, ok := errors.AsType[*ProviderError](err); ok {
		return map[string]string{"session": string(e.Session), "provider": e.Provider, "actual": e.Actual}
	}
	if e, ok := errors.AsType[*events.FieldError](err); ok {
		return map[string]string{"field": clip(e.Field), "reason": clip(e.Reason)}
	}
	return nil
}

func decimal[N ~int64 | ~uint64](n N) string {
	if n < 0 {
		return strconv.FormatInt(int64(n), 10)
	}
	return strconv.FormatUint(uint64(n), 10)
}

// RemoteError is an error that came through a door. It is what it was on the
// other side, for [errors.Is] and [errors.AsType].
type RemoteError struct {
	Body  ErrorBody
	Class Class
	err   error // nil: unknown to this program, or to the door
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
	if typed := restore(b, e.err); typed != nil {
		e.err = typed
		if at < 0 {
			e.Class = classOf(b.Code)
		}
	}
	return e
}

// restore makes the error with data again; nil where the body is of none.
func restore(b ErrorBody, sentinel error) error {
	d := b.Details
	switch {
	case b.Code == codeStaleBranch:
		return &StaleBranchError{Required: events.NodeID(d["required"]), Leaf: events.NodeID(d["leaf"])}
	case b.Code == codeGeneration:
		return &GenerationError{Expected: number[int64](d["expected"]), Actual: number[int64](d["actual"])}
	case b.Code == codeConflict:
		return &events.ConflictError{Session: events.SessionID(d["session"]), Expected: number[events.Seq](d["expected"]), Last: number[events.Seq](d["last"])}
	case b.Code == codeCursor:
		return &CursorError{Session: events.SessionID(d["session"]), Cursor: number[events.Seq](d["cursor"]), Last: number[events.Seq](d["last"])}
	case b.Code == codeRejected:
		return &TurnRejectedError{Turn: events.TurnID(d["turn"]), By: events.TurnID(d["by"])}
	case b.Code == codeErased:
		return &events.ErasedError{Session: events.SessionID(d["session"]), At: number[events.Millis](d["at"]), Reason: d["reason"]}
	case b.Code == codeLimit:
		return &LimitError{What: d["what"], Limit: number[int](d["limit"])}
	case d["turn"] != "":
		return &TurnFailedError{Turn: events.TurnID(d["turn"]), Issue: events.Issue{Kind: d["issue_kind"], Code: d["issue_code"], Message: d["issue_message"]}}
	case providerError(b.Code) != nil && d != nil:
		return &ProviderError{Session: events.SessionID(d["session"]), Provider: d["provider"], Actual: d["actual"]}
	case d["field"] != "" && sentinel != nil:
		return &events.FieldError{Field: d["field"], Reason: d["reason"], Err: sentinel}
	}
	return nil
}

func number[N ~int | ~int64 | ~uint64](text string) N {
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return N(n)
	}
	n, _ := strconv.ParseInt(text, 10, 64) // garbage is 0
	return N(n)
}
