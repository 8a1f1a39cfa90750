package wake

import "errors"

var (
	// ErrStopped is the cause of what the hard stop of a worker cancels.
	ErrStopped = errors.New("worker stopped")
	// ErrSuperseded is a turn or task that another worker has taken over. The
	// worker that finds out wrote nothing.
	ErrSuperseded = errors.New("superseded by another worker")
)
