package program

import "errors"

// Exit codes.
const (
	OK        = 0
	Different = 1 // a difference was found, or an object does not exist
	Failed    = 2 // usage, input or infrastructure
)

// exitError is an error of a command that ends with [Different].
type exitError struct {
	text   string
	silent bool
}

// Error implements error.
func (e *exitError) Error() string { return e.text }

// Difference is an error with the exit code [Different]. Errors may wrap it.
func Difference(text string) error { return &exitError{text: text} }

// Silent is [Difference] of a command that has printed what it found: the text is not printed.
func Silent(text string) error { return &exitError{text: text, silent: true} }

// CodeOf is the exit code for an error of a command, and whether its text is printed.
func CodeOf(err error) (code int, print bool) {
	if e, ok := errors.AsType[*exitError](err); ok {
		return Different, !e.silent
	}
	return Failed, true
}
