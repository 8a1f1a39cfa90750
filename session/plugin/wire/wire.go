package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
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

// Limits of a registration.
const (
	MaxTools         = 128
	MaxManifestBytes = 512 << 10
	MaxSchemaBytes   = 64 << 10
	MaxVersionBytes  = 64
	MaxDescription   = 16 << 10
)

// Tool declares a tool of a plugin.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`     // JSON schema of the arguments. Defaults to any object
	Effects     events.Effects  `json:"effects,omitempty"`    // "none", "idempotent", or empty: a call runs at most once
	TimeoutMS   int64           `json:"timeout_ms,omitempty"` // of one call; 0 means no limit
	Serial      bool            `json:"serial,omitempty"`     // runs alone, after the other calls of its reply
}

// Manifest is what a plugin offers. Two instances of one version of a plugin have the same manifest.
type Manifest struct {
	Version string `json:"version"` // of the plugin, 1 to 64 bytes
	Tools   []Tool `json:"tools"`
}

// Hash identifies the manifest: the hexadecimal SHA-256 of its JSON, as this package writes it.
func (m *Manifest) Hash() string {
	data, err := json.Marshal(m)
	if err != nil {
		return "" // raw JSON that is none, which Validate refuses
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Validate checks the limits. Whether the schemas are valid is checked where they are compiled. Errors:
// [*events.FieldError].
func (m *Manifest) Validate() error {
	if m.Version == "" || len(m.Version) > MaxVersionBytes {
		return refuse("manifest.version", "has %d bytes, want 1 to %d", len(m.Version), MaxVersionBytes)
	}
	if len(m.Tools) > MaxTools {
		return refuse("manifest.tools", "are %d, limit is %d", len(m.Tools), MaxTools)
	}
	names := make(map[string]bool, len(m.Tools))
	for i := range m.Tools {
		t := &m.Tools[i]
		field := fmt.Sprintf("manifest.tools[%d]", i)
		if err := events.CheckToken(field+".name", t.Name); err != nil {
			return err
		}
		switch {
		case names[t.Name]:
			return refuse(field+".name", "%q occurs twice", t.Name)
		case len(t.Schema) > MaxSchemaBytes:
			return refuse(field+".schema", "has %d bytes, limit is %d", len(t.Schema), MaxSchemaBytes)
		case len(t.Description) > MaxDescription:
			return refuse(field+".description", "has %d bytes, limit is %d", len(t.Description), MaxDescription)
		case t.TimeoutMS < 0:
			return refuse(field+".timeout_ms", "is negative")
		}
		switch t.Effects {
		case events.EffectsNone, events.EffectsIdempotent, events.EffectsNonIdempotent:
		default:
			return refuse(field+".effects", "unknown %q", t.Effects)
		}
		names[t.Name] = true
	}
	return nil
}

func refuse(field, format string, args ...any) error {
	return &events.FieldError{Field: field, Reason: fmt.Sprintf(format, args...), Err: events.ErrInvalid}
}

// Registration is the first request of an instance.
type Registration struct {
	Protocol int      `json:"protocol"` // [Version]
	Instance string   `json:"instance"` // a token, new at each start of the program
	Manifest Manifest `json:"manifest"`
}

// Validate checks the limits. Errors: [*events.FieldError].
func (r *Registration) Validate() error {
	if err := events.CheckToken("instance", r.Instance); err != nil {
		return err
	}
	if r.Instance == All {
		return refuse("instance", "is %q, which names all instances", All)
	}
	return r.Manifest.Validate()
}

// Registered answers a [Registration].
type Registered struct {
	Error *Error `json:"error,omitempty"` // the registration is refused
	Hash  string `json:"hash,omitempty"`  // of the manifest
}

// Error is a refusal.
type Error struct {
	Code    string `json:"code"` // one of the Code constants
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return e.Message }

// Codes of errors.
const (
	CodeBadRequest  = "bad_request"
	CodeConflict    = "conflict"            // another manifest has this version
	CodeUnsupported = "unsupported_version" // of the protocol
	CodeUnknownTool = "unknown_tool"
	CodeDraining    = "draining" // the instance takes no new calls
	CodeInternal    = "internal"
)

// Sign is a sign of life of an instance.
type Sign struct {
	Hash     string `json:"hash"`               // of the instance's manifest
	Draining bool   `json:"draining,omitempty"` // it takes no new calls
	Running  int    `json:"running"`            // calls that run
}

// CallID names a call: the same for every attempt, on every node.
type CallID struct {
	Session events.SessionID `json:"session"`
	Call    events.EffectID  `json:"call"` // unique in the session
}

// Call is a tool call for an instance.
type Call struct {
	CallID
	Turn    events.TurnID   `json:"turn"`
	Model   events.CallID   `json:"model_call"` // the id from the model's reply
	Key     string          `json:"key"`        // idempotency key: the same for every attempt
	Attempt int             `json:"attempt"`    // from 1; attempts follow failures that are safe to repeat
	Tool    string          `json:"tool"`
	Args    json.RawMessage `json:"args"`
	// Again means that the call may have reached this instance before: an instance that may have dropped its outcome
	// must not run it.
	Again bool `json:"again,omitempty"`
}

// Progress is one answer to a [Call]: a sign of life, or the last one, which has an outcome, an error or Forgotten.
type Progress struct {
	Outcome   *Outcome `json:"outcome,omitempty"`   // the tool has returned
	Error     *Error   `json:"error,omitempty"`     // the call is refused: the tool has not run, and does not run
	Forgotten bool     `json:"forgotten,omitempty"` // the call may have run, and the instance does not have its outcome
}

// Last reports whether no answer follows.
func (p *Progress) Last() bool { return p.Outcome != nil || p.Error != nil || p.Forgotten }

// Outcome is the result of a tool, or its failure.
type Outcome struct {
	Text    string   `json:"text,omitempty"` // for the model
	Failure *Failure `json:"failure,omitempty"`
}

// Bytes is the size of the texts, roughly that of the message.
func (o *Outcome) Bytes() int {
	n := len(o.Text)
	if o.Failure != nil {
		n += len(o.Failure.Message)
	}
	return n
}

// Failure says why a tool failed.
type Failure struct {
	Class   string `json:"class,omitempty"` // of package plugin. Defaults to "execution"
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
	Safe    bool   `json:"safe,omitempty"` // a retry does no harm
}
