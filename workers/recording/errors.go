package recording

import "fmt"

// LineError is the file, the line and the reason of a failed read. Every error of [Read] is one.
type LineError struct {
	File   string
	Line   int // from 1
	Reason string
	Err    error // cause; may be nil
}

func (e *LineError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason) }

// Unwrap returns the cause.
func (e *LineError) Unwrap() error { return e.Err }
