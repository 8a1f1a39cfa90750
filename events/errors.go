package events

import (
	"errors"
	"fmt"
	"time"
)

// Errors that callers distinguish.
var (
	// ErrInvalidID is an identifier that cannot be a subject token.
	ErrInvalidID = errors.New("invalid id")
	// ErrMalformed is input that violates the format: garbage, truncated, or with trailing bytes.
	ErrMalformed = errors.New("malformed")
	// ErrTooLarge is input above a limit of the format.
	ErrTooLarge = errors.New("too large")
	// ErrFutureVersion is a payload or a format of a newer version than this program reads.
	ErrFutureVersion = errors.New("written by a newer version")
	// ErrInvalid is a payload that decodes but violates a rule of its kind.
	ErrInvalid = errors.New("invalid")
	// ErrShorter: a read starts after the sequence that follows the last one, so an older history has replaced the one that the
	// reader knows; or that happened while it read.
	ErrShorter = errors.New("an older history is in the place of the one that was read")
	// ErrNoSession is a session without a history.
	ErrNoSession = errors.New("no such session")
	// ErrSealed is an append to a sealed history.
	ErrSealed = errors.New("session is sealed")
	// ErrLocked is a body that is encrypted with a key which is not here, see [KeyError].
	ErrLocked = errors.New("the key is not here")
	// ErrStorage is a request that was refused because the servers have no room: nothing was stored.
	ErrStorage = errors.New("storage is full")
	// ErrOutcomeUnknown is a request whose answer was lost: it may have been done.
	ErrOutcomeUnknown = errors.New("outcome unknown")
)

// OfServers reports whether an error is a fault of the servers: the same request may succeed once that is over.
func OfServers(err error) bool {
	return errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrStorage)
}

// FieldError names the invalid field and the violated limit. It wraps one of the sentinel errors.
type FieldError struct {
	Field  string
	Reason string
	Err    error
}

func (e *FieldError) Error() string { return fmt.Sprintf("%s: %s", e.Field, e.Reason) }
func (e *FieldError) Unwrap() error { return e.Err }

// ErasedError is a session that was erased. Its content is deleted, and its id stays in use. It wraps [ErrNoSession].
type ErasedError struct {
	Session SessionID
	At      Millis
	By      string // the caller that erased it; empty: not known
	Reason  string
}

func (e *ErasedError) Error() string {
	by := ""
	if e.By != "" {
		by = " by " + e.By
	}
	return fmt.Sprintf("session %s was erased at %s%s: %s", e.Session, e.At.Time().Format(time.RFC3339), by, e.Reason)
}
func (e *ErasedError) Unwrap() error { return ErrNoSession }

// LostError is a session that refuses requests, because its last commits are lost, until they are there again. A fork has what is left.
// Where it has lost the first one too, it can only be erased.
type LostError struct {
	Session  SessionID
	From, To Seq // the lost commits
}

func (e *LostError) Error() string {
	decision := "fork what is left of the session"
	if e.From == 1 {
		decision = "erase the session"
	}
	return fmt.Sprintf("session %s: commits %d to %d are lost: put their stream back from a backup, or %s", e.Session, e.From, e.To, decision)
}

// ConflictError is an append whose expected sequence is not the last one. The log is unchanged.
// The caller folds from Expected+1 on and decides again.
type ConflictError struct {
	Session  SessionID
	Expected Seq
	Last     Seq // last sequence at the time of reading back; 0 if unknown
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("session %s has moved: expected sequence %d, last is %d", e.Session, e.Expected, e.Last)
}
