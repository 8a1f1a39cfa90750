package recording

import "fmt"

// LineError says why a file could not be read, and where. Every error of [Read] is one.
type LineError struct {
	File   string
	Line   int // from 1
	Reason string
	Err    error // cause; may be nil
}

func (e *LineError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason) }

// Unwrap returns the cause.
func (e *LineError) Unwrap() error { return e.Err }
