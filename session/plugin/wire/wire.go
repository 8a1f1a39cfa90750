package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lash-go/lash/events"
)

// Version of the protocol. A node refuses a registration of another version.
const Version = 1

// Times of the protocol.
const (
	SignEvery = time.Second     // between two signs of life of an instance, and between two of a running call
	Lease     = 3 * time.Second // an instance without a sign of life for this time is gone
)

// All stands in place of an instance in messages to all instances of a plugin. No instance has this name.
const All = "all"

// Last tokens of subjects. Instances send register and fire; nodes send sign to all instances of a plugin, and the others,
// register among them, to one.
const (
	VerbRegister     = "register"
	VerbFire         = "fire"
	VerbCall         = "call"
	VerbCallback     = "callback"
	VerbCancel       = "cancel"
	VerbRecorded     = "recorded"
	VerbHook         = "hook"
	VerbSessionStart = "session_start"
	VerbIdle         = "idle"
	VerbDrain        = "drain"
	VerbSign         = "sign"
)

// Limits of a registration.
const (
	MaxTools         = 128
	MaxManifestBytes = 128 << 10 // of its JSON
	MaxSchemaBytes   = 64 << 10
	MaxVersionBytes  = 64
	MaxDescription   = 16 << 10
)

// Error is a refusal.
type Error struct {
	Code    string `json:"code"` // one of the Code constants
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

// Error is the message, without what is longer than [maxErrorText]: its sender is not trusted, and logs and histories have it.
func (e *Error) Error() string { return clip(e.Message, maxErrorText) }

// maxErrorText limits the text of an error of another program, in bytes.
const maxErrorText = 1 << 10

func clip(s string, most int) string { return events.Clip(strings.ToValidUTF8(s, "?"), most, "...") }

// Codes of errors.
const (
	CodeBadRequest  = "bad_request"
	CodeConflict    = "conflict"            // another manifest has this version, or a later version has replaced it
	CodeUnsupported = "unsupported_version" // of the protocol
	CodeUnknownTool = "unknown_tool"
	CodeDraining    = "draining"  // the instance takes no new calls
	CodeNotOwner    = "not_owner" // the session's placement is not on this instance, see [SessionStart]
	CodeTooLarge    = "too_large"
	CodeForbidden   = "unauthorized" // the operator does not allow it
	CodeBusy        = "busy"         // too many requests of the plugin run: try again later
	CodeRateLimited = "rate_limited" // above a limit in time: try again later
	CodeInternal    = "internal"
)

// MaxMessageBytes limits a message. Servers refuse more than 1 MiB, headers included.
const MaxMessageBytes = 1000 << 10

// MaxValues limits the values of a message: one of few bytes takes more memory than its text.
const MaxValues = 1 << 17

// Decode parses a message of another program, which is not trusted: it refuses more nesting than [events.MaxJSONDepth] and
// more than [MaxValues] values. Errors: an [*events.FieldError] of the field body, and those of package json, with short texts.
func Decode(data []byte, message any) error {
	if err := cmp.Or(events.CheckJSON("body", data), events.CheckJSONValues("body", data, MaxValues)); err != nil {
		return err
	}
	err := json.Unmarshal(data, message)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		wrong.Value = clip(wrong.Value, 64) // it may quote a number
	}
	return err
}

// Encode is the JSON of a message. It leaves <, > and & as they are: escaped, a message could be six times as long as
// its limits allow. Errors: an [*Error] for a message that is too large to be sent.
func Encode(message any) ([]byte, error) {
	var out bytes.Buffer
	w := json.NewEncoder(&out)
	w.SetEscapeHTML(false)
	if err := w.Encode(message); err != nil {
		return nil, err
	}
	data := bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	if len(data) > MaxMessageBytes {
		return nil, &Error{Code: CodeTooLarge, Message: fmt.Sprintf("the message has %d bytes, limit is %d", len(data), MaxMessageBytes)}
	}
	return data, nil
}
