package wake

import "errors"

var (
	// ErrStopped cancels the work that still runs at the hard stop of a worker.
	ErrStopped = errors.New("worker stopped")
	// ErrSuperseded reports a turn or task that another worker has taken over. The worker that receives it wrote
	// nothing.
	ErrSuperseded = errors.New("superseded by another worker")
)
