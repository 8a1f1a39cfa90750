package api

import (
	"fmt"

	"github.com/lash-go/lash/events"
)

// Observed is one thing seen of a session: one of Commit, Delta and Gap is set.
type Observed struct {
	Seq    events.Seq     // of Commit, and the cursor that resumes after it; 0 otherwise
	Commit *events.Commit // the observer's own copy
	Delta  *Delta         // the next piece of the reply in flight
	Gap    *Gap           // pieces before the next Delta were lost
}

// Gap says that deltas of the reply in flight were lost for this observer. Its commit will hold the whole reply.
type Gap struct {
	Turn      events.TurnID
	Iteration int64
}

// CursorError is a cursor beyond the end of the history: it belongs to another session, or to one that was lost.
type CursorError struct {
	Session events.SessionID
	Cursor  events.Seq
	Last    events.Seq
}

func (e *CursorError) Error() string {
	return fmt.Sprintf("cursor %d is beyond the end of session %s, last is %d", e.Cursor, e.Session, e.Last)
}

// Delta is a piece of streamed output: never truth, only company for the eye.
// N counts the deltas of one attempt from 0, so that a late joiner can put
// together what it read and what it hears. A newer call and a newer attempt
// retract the text of the one before.
type Delta struct {
	Turn      events.TurnID   `msgpack:"u"`
	Iteration int64           `msgpack:"i"`
	Call      int64           `msgpack:"c,omitempty"` // when the model call began, in ns: only an order between an iteration's calls, of which takeovers make more
	Attempt   int64           `msgpack:"a"`           // of the call, from 1
	N         int64           `msgpack:"n"`
	Kind      events.PartKind `msgpack:"k,omitempty"` // text or reasoning
	Text      string          `msgpack:"x,omitempty"`
	Retry     RetryStatus     `msgpack:"r,omitempty"` // set on its own, without text
	Message   SideMessage     `msgpack:"m,omitempty"` // set on its own: no part of any reply, and has no N
}

// SideMessage is what running code says beside its result. Only who watches
// while it is said hears it.
type SideMessage struct {
	Text string `msgpack:"x"`
	Kind string `msgpack:"k,omitempty"`
}

// IsZero reports whether there is none.
func (m SideMessage) IsZero() bool { return m == SideMessage{} }

// RetryStatus tells that a failed model call will be tried again.
type RetryStatus struct {
	WaitMillis int64  `msgpack:"w"`
	Attempt    int64  `msgpack:"a"` // the one that failed, from 1
	Attempts   int64  `msgpack:"m"` // allowed in all
	Reason     string `msgpack:"r"`
}

// IsZero reports whether there is none.
func (r RetryStatus) IsZero() bool { return r == RetryStatus{} }
