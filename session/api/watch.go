package api

import (
	"encoding/json"
	"fmt"

	"github.com/lash-go/lash/events"
)

// Observed is one observation of a session: exactly one of Commit, Delta and Gap is set.
type Observed struct {
	Seq    events.Seq     // of Commit, and the cursor that resumes after it; 0 otherwise
	Commit *events.Commit // the observer's own copy
	Delta  *Delta         // the next delta of the streaming reply
	Gap    *Gap           // deltas before the next Delta were lost
}

// Gap reports that this observer lost deltas of the streaming reply. The commit of the reply has the full text.
type Gap struct {
	Turn      events.TurnID `json:"turn"`
	Iteration int64         `json:"iteration"`
}

// CursorError reports a cursor that is not of the history: it is beyond the end, or the history was replaced, as after lost commits were
// accepted, and has another commit there, or texts before it were redacted. The caller reads the history again from the start.
type CursorError struct {
	Session events.SessionID
	Cursor  events.Seq
	Last    events.Seq
}

func (e *CursorError) Error() string {
	if e.Cursor <= e.Last {
		return fmt.Sprintf("the history of session %s was replaced or redacted up to cursor %d: read it again from the start", e.Session, e.Cursor)
	}
	return fmt.Sprintf("cursor %d is beyond the end of session %s, last is %d: it is of another session, or the history was replaced; read it again from the start",
		e.Cursor, e.Session, e.Last)
}

// Delta is a part of streamed output, for display only; the commit has the final text. N counts the deltas of one
// attempt from 0, so an observer that joins late can combine what it read with what it receives. A newer call or
// attempt retracts the text of the earlier one.
type Delta struct {
	Turn      events.TurnID   `msgpack:"u" json:"turn"`
	Iteration int64           `msgpack:"i" json:"iteration"`
	Call      int64           `msgpack:"c,omitempty" json:"call" jsonschema:"start of the model call in microseconds since 1970. It orders the model calls of an iteration, which a takeover repeats"` // in Go and over NATS in ns, by the servers' time
	Attempt   int64           `msgpack:"a" json:"attempt" jsonschema:"number of the try of this call, from 1"`
	N         int64           `msgpack:"n" json:"n" jsonschema:"number of the delta in its attempt, from 0"`
	Kind      events.PartKind `msgpack:"k,omitempty" json:"kind,omitempty" jsonschema:"text or reasoning"`
	Text      string          `msgpack:"x,omitempty" json:"text,omitempty"`
	Retry     RetryStatus     `msgpack:"r,omitempty" json:"retry,omitzero" jsonschema:"set if the call failed and will be tried again"`    // set alone, without text
	Message   SideMessage     `msgpack:"m,omitempty" json:"message,omitzero" jsonschema:"message of running code, outside of all replies"` // set alone: part of no reply, and without N
	// Output is what a tool call prints, and not part of the reply. Then Call is the start of an attempt of the tool, and
	// N counts the deltas of the attempt from 1. A missing number is lost text.
	Output ToolOutput `msgpack:"o,omitempty" json:"output,omitzero" jsonschema:"what a tool call prints, outside of all replies. Then call is the start of an attempt of the tool in microseconds since 1970, and n counts the pieces of the attempt from 1. A missing n is lost text"`
	// Event is what a plugin shows while the reply arrives, set alone. The commit of the reply has it, too. One of more than
	// [MaxEventBytes] comes with the commit alone.
	Event PluginEvent `msgpack:"e,omitempty" json:"event,omitzero" jsonschema:"what a plugin shows while the reply arrives; the commit of the reply has it, too"`
}

// PluginEvent is data of a plugin for display.
type PluginEvent struct {
	Plugin string          `msgpack:"p" json:"plugin"`
	Data   json.RawMessage `msgpack:"d" json:"data"`
}

// MaxEventBytes limits a plugin's data in a [Delta].
const MaxEventBytes = 64 << 10

// IsZero reports whether there is no event.
func (e PluginEvent) IsZero() bool { return e.Plugin == "" }

// ToolOutput is text that a running tool call has printed. It is not stored: only observers at that time receive it,
// and not after the call has a result.
type ToolOutput struct {
	Call   events.EffectID `msgpack:"c" json:"call" jsonschema:"id of the call: TURN/ITERATION/INDEX"` // of a nested call: its own id
	Stream string          `msgpack:"s,omitempty" json:"stream" jsonschema:"stdout, stderr, log, progress or another word"`
	Offset int64           `msgpack:"f" json:"offset" jsonschema:"bytes that the attempt printed to the stream before this text"`
	Text   string          `msgpack:"x" json:"text"`
}

// IsZero reports whether there is no output.
func (o ToolOutput) IsZero() bool { return o == ToolOutput{} }

// SideMessage is a message of running code outside of its result. It is not stored: only observers at that time
// receive it.
type SideMessage struct {
	Text string `msgpack:"x" json:"text"`
	Kind string `msgpack:"k,omitempty" json:"kind,omitempty"`
}

// IsZero reports whether the message is empty.
func (m SideMessage) IsZero() bool { return m == SideMessage{} }

// RetryStatus reports that a failed model call will be retried.
type RetryStatus struct {
	WaitMillis int64  `msgpack:"w" json:"wait_ms"`
	Attempt    int64  `msgpack:"a" json:"attempt" jsonschema:"number of the failed attempt, from 1"`
	Attempts   int64  `msgpack:"m" json:"attempts" jsonschema:"limit of attempts; 0: they are limited by time alone"`
	Reason     string `msgpack:"r" json:"reason"`
}

// IsZero reports whether the status is empty.
func (r RetryStatus) IsZero() bool { return r == RetryStatus{} }
