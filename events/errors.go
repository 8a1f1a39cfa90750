package events

import (
	"errors"
	"fmt"
	"time"
)

// Errors that callers branch on.
var (
	// ErrInvalidID is an identifier that cannot be a subject token.
	ErrInvalidID = errors.New("invalid id")
	// ErrMalformed is input that is not what the format says: garbage, truncated, trailing bytes.
	ErrMalformed = errors.New("malformed")
	// ErrTooLarge is input above a limit of the format.
	ErrTooLarge = errors.New("too large")
	// ErrFutureVersion is a payload or format version newer than this program reads.
	ErrFutureVersion = errors.New("written by a newer version")
	// ErrInvalid is a payload that decodes but breaks a rule of its kind.
	ErrInvalid = errors.New("invalid")
	// ErrNoSession is a session whose history does not exist.
	ErrNoSession = errors.New("no such session")
	// ErrSealed is an append to a history that accepts no more.
	ErrSealed = errors.New("session is sealed")
	// ErrOutcomeUnknown is an append that may or may not have landed, where reading back was impossible too.
	ErrOutcomeUnknown = errors.New("outcome unknown")
)

// FieldError names the field at fault and the limit it broke. It wraps one of the sentinels.
type FieldError struct {
	Field  string
	Reason string
	Err    error
}

func (e *FieldError) Error() string { return fmt.Sprintf("%s: %s", e.Field, e.Reason) }
func (e *FieldError) Unwrap() error { return e.Err }

// ErasedError is a session that was erased: what it held is gone, and its id
// stays taken. It wraps [ErrNoSession].
type ErasedError struct {
	Session SessionID
	At      Millis
	Reason  string
}

func (e *ErasedError) Error() string {
	return fmt.Sprintf("session %s was erased at %s: %s", e.Session, e.At.Time().Format(time.RFC3339), e.Reason)
}
func (e *ErasedError) Unwrap() error { return ErrNoSession }

// ConflictError is an append whose expected sequence is no longer the last one.
// Nothing was written. Refold from Expected+1 and decide again.
type ConflictError struct {
	Session  SessionID
	Expected Seq
	Last     Seq // the last sequence seen when reading back; 0 when unknown
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("session %s has moved: expected sequence %d, last is %d", e.Session, e.Expected, e.Last)
}
