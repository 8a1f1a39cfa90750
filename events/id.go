package events

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

// Identifiers that become subject tokens: 1 to 64 of A-Z a-z 0-9 _ and -.
// Anything else is refused at the door with [ErrInvalidID], never escaped.
type (
	// SessionID names a session for ever, across clusters.
	SessionID string
	// TurnID names a turn inside its session. It is the idempotency key of the command that asks for the turn.
	TurnID string
	// InputID names an injected input inside its session.
	InputID string
	// WorkerID names one run of one worker process.
	WorkerID string
	// TaskID names a background task inside its session. At most [MaxTaskID] bytes, so that a job's subject can hold it.
	TaskID string
	// MonitorID names a monitor inside its session. At most [MaxMonitorID] bytes; see [TaskOf].
	MonitorID string
)

// Identifiers that stay inside payloads: any non-empty text up to 256 bytes.
type (
	// CommitID is a ULID, unique in the session; it is the message's Nats-Msg-Id.
	CommitID string
	// EventID is the commit's id, a dot and the event's position in it: "01J...ZX.0".
	EventID string
	// NodeID names a node of the session graph.
	NodeID string
	// FrameID names an agent frame.
	FrameID string
	// MessageID names a message; it doubles as the node's id when that is free.
	MessageID string
	// CallID is the identifier a model gave to a tool call. Models reuse them: never a key by itself.
	CallID string
	// EffectID names one external action owed by the state: "<turn>/<iteration>/model" or "<turn>/<iteration>/<call index>".
	EffectID string
)

// Millis is a point in time: milliseconds since 1970-01-01 UTC. Zero means unknown.
type Millis int64

// Time converts m to a [time.Time] in UTC.
func (m Millis) Time() time.Time { return time.UnixMilli(int64(m)).UTC() }

// MillisOf converts t.
func MillisOf(t time.Time) Millis { return Millis(t.UnixMilli()) }

// Seq is a position in a session's stream. The first commit has 1; 0 is "before everything".
type Seq uint64

// DerivedID is the prefix and 32 hex digits, half the sha256 of the names joined by "/": the
// same id for whoever derives it. With a prefix of at most 32 characters it may become a subject token.
func DerivedID(prefix string, names ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(names, "/")))
	return prefix + hex.EncodeToString(sum[:16])
}

// MaxTokenBytes bounds identifiers that become subject tokens.
const MaxTokenBytes = 64

// CheckToken reports whether id may become a subject token. The error wraps [ErrInvalidID] and names field.
func CheckToken[T ~string](field string, id T) error {
	if isToken(string(id)) {
		return nil
	}
	return &FieldError{Field: field, Reason: "must be 1 to 64 characters of A-Z a-z 0-9 _ -", Err: ErrInvalidID}
}

func isToken(id string) bool {
	if id == "" || len(id) > MaxTokenBytes {
		return false
	}
	for i := range len(id) {
		c := id[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
