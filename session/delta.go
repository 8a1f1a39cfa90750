package session

import "github.com/lash-go/lash/events"

// Delta is a piece of streamed output: never truth, only company for the eye.
// N counts the deltas of one attempt from 0, so that a late joiner can put
// together what it read and what it hears.
type Delta struct {
	Turn      events.TurnID   `msgpack:"u"`
	Iteration int64           `msgpack:"i"`
	Attempt   int64           `msgpack:"a"` // a new attempt retracts the text of the one before
	N         int64           `msgpack:"n"`
	Kind      events.PartKind `msgpack:"k,omitempty"` // text or reasoning
	Text      string          `msgpack:"x,omitempty"`
	Retry     RetryStatus     `msgpack:"r,omitempty"` // set on its own, without text
}

// RetryStatus tells that a failed model call will be tried again.
type RetryStatus struct {
	WaitMillis int64  `msgpack:"w"`
	Attempt    int64  `msgpack:"a"` // the one that failed, from 1
	Attempts   int64  `msgpack:"m"` // allowed in all
	Reason     string `msgpack:"r"`
}

// IsZero reports whether there is none.
func (r RetryStatus) IsZero() bool { return r == RetryStatus{} }
