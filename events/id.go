package events

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
	"unicode/utf8"
)

// Identifiers that become subject tokens: 1 to 64 characters of A-Z a-z 0-9 _ -. Other characters are refused with
// [ErrInvalidID], never escaped.
type (
	// SessionID names a session permanently, across clusters.
	SessionID string
	// TurnID names a turn in its session. It is the idempotency key of the request for the turn.
	TurnID string
	// InputID names an injected input in its session.
	InputID string
	// WorkerID names one run of one worker process.
	WorkerID string
	// TaskID names a background task in its session. At most [MaxTaskID] bytes, so that the subject of its wake fits.
	TaskID string
	// MonitorID names a monitor in its session. At most [MaxMonitorID] bytes; see [TaskOf].
	MonitorID string
)

// Identifiers that occur in payloads only: any text of 1 to 256 bytes.
type (
	// CommitID is a ULID, unique in the session; it is the message's Nats-Msg-Id.
	CommitID string
	// EventID is the commit's id, a dot and the event's index in the commit: "01J...ZX.0".
	EventID string
	// NodeID names a node of the session graph.
	NodeID string
	// FrameID names an agent frame.
	FrameID string
	// MessageID names a message. A node for the message uses it as its id if that is free.
	MessageID string
	// CallID is a model's id of a tool call. Models reuse ids, so it is no key by itself.
	CallID string
	// EffectID names one external action of a turn: the turn's id, a slash, and a rest. Package session/turn has the forms
	// of the rest. A nested call appends a slash and a number to the id of its call.
	EffectID string
)

// Millis is a point in time: milliseconds since 1970-01-01 UTC. Zero means unknown.
type Millis int64

// Time converts m to a [time.Time] in UTC.
func (m Millis) Time() time.Time { return time.UnixMilli(int64(m)).UTC() }

// MillisOf converts a [time.Time].
func MillisOf(t time.Time) Millis { return Millis(t.UnixMilli()) }

// Seq is a sequence in a session's stream. The first commit has 1; 0 is before all commits.
type Seq uint64

// DerivedID is the prefix followed by 32 hex digits, half of the sha256 of the names joined by "/". Every process
// derives the same id from the same names. With a prefix of at most 32 characters the id can become a subject token.
func DerivedID(prefix string, names ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(names, "/")))
	return prefix + hex.EncodeToString(sum[:16])
}

// MaxTokenBytes limits identifiers that become subject tokens.
const MaxTokenBytes = 64

// DefaultPrefix begins the names of streams, buckets and subjects where no other prefix is configured.
const DefaultPrefix = "lash"

// CheckToken refuses an id that cannot become a subject token. The error names the field and wraps [ErrInvalidID].
func CheckToken[T ~string](field string, id T) error {
	if isToken(string(id)) {
		return nil
	}
	return &FieldError{Field: field, Reason: "must be 1 to 64 characters of A-Z a-z 0-9 _ -", Err: ErrInvalidID}
}

// Names that histories have in the place of a caller's, where nobody decided.
const (
	ByTimer     = "timer"     // an answer to a question whose time was over
	ByRetention = "retention" // an erasure after the time that a session is kept
)

// CheckCaller refuses the name of a caller that is no token, and one that histories have for something else: that of a decision
// which nobody made, or of a command whose operator has no name ([ByTimer], [ByRetention], chat, lash-node, lash-replay), in any case. The
// error names the field and wraps [ErrInvalidID].
func CheckCaller(field, name string) error {
	if err := CheckToken(field, name); err != nil {
		return err
	}
	for _, reserved := range []string{ByTimer, ByRetention, "chat", "lash-node", "lash-replay"} {
		if strings.EqualFold(name, reserved) {
			return &FieldError{Field: field, Reason: "is " + reserved + ", which histories have for what no caller does: choose another name", Err: ErrInvalidID}
		}
	}
	return nil
}

// CheckUTF8 refuses a text that is not UTF-8: JSON would have other characters in its place. The error names the field and
// wraps [ErrInvalid].
func CheckUTF8(field, text string) error {
	if utf8.ValidString(text) {
		return nil
	}
	return &FieldError{Field: field, Reason: "is not UTF-8", Err: ErrInvalid}
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
