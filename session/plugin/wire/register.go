package wire

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lash-go/lash/events"
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

// Hook declares a function that nodes call at a point of a session.
type Hook struct {
	Name string `json:"name"` // a token, unique in the manifest
	// Point is one of [events.HookPoint] before_turn, before_model_call, before_tool_call, after_tool_call, checkpoint and
	// after_turn, where the hook answers with directives; or turn_finalized, turn_persisted, session_restored and
	// session_config_changed, which it observes; or "custom.NAME", which other plugins fire.
	Point     string   `json:"point"`
	Tools     []string `json:"tools,omitempty"`      // of the points of calls: only calls of these tools; empty: all
	TimeoutMS int64    `json:"timeout_ms,omitempty"` // 0 means [HookTimeout]
	// Open skips the hook where it fails, and the history says so. Otherwise a failure does what it does for hooks in the
	// node: before_tool_call fails the call, after_tool_call makes its result a failure, the others end the turn. It is not
	// for before_tool_call.
	Open bool `json:"fail_open,omitempty"`
}

// Fragment is a text of the plugin in the system prompt.
type Fragment struct {
	Slot     events.Slot `json:"slot"`
	Title    string      `json:"title,omitempty"`
	Priority int64       `json:"priority,omitempty"` // lower ones come first
	Content  string      `json:"content"`
	Tools    []string    `json:"tools,omitempty"` // shown only where the session has one of these tools; empty: always
}

// Scope says which sessions share an instance.
type Scope string

// Scopes.
const (
	ScopeShared  Scope = ""        // any instance serves any call
	ScopeSession Scope = "session" // one instance serves a session, from [SessionStart] on, until it is gone
)

// MaxMachine limits [Sign.Machine]. A node cuts a longer text.
const MaxMachine = 64

// MaxSignBytes limits the JSON of a [Sign]. Nodes ignore a larger one.
const MaxSignBytes = 1 << 10

// MaxReplies is how many reply subjects of one call an instance answers: the last ones that sent it.
const MaxReplies = 64

// CallerOf is the name of a plugin as a caller of the API, and as the one that answers its own withdrawn questions.
func CallerOf(plugin string) string {
	if name := callerPrefix + plugin; len(name) <= events.MaxTokenBytes {
		return name
	}
	return callerPrefix + events.DerivedID("", plugin)
}

// callerPrefix begins the names of plugins as callers.
const callerPrefix = "plugin-"

// Limits of hooks and fragments.
const (
	MaxHooks        = 32
	HookTimeout     = 5 * time.Second
	MaxHookTimeout  = 15 * time.Second
	MaxFragments    = 32
	MaxFragmentText = 16 << 10
	MaxPromptText   = 32 << 10 // of the titles and contents of all fragments
)

// Manifest is what a plugin offers. Two instances of one version of a plugin have the same manifest.
type Manifest struct {
	Version string     `json:"version"` // of the plugin, 1 to 64 bytes
	Scope   Scope      `json:"scope,omitempty"`
	Tools   []Tool     `json:"tools"`
	Hooks   []Hook     `json:"hooks,omitempty"`
	Prompt  []Fragment `json:"prompt,omitempty"`
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
	if m.Scope != ScopeShared && m.Scope != ScopeSession {
		return refuse("manifest.scope", "unknown %q", m.Scope)
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
		case t.TimeoutMS < 0 || t.TimeoutMS > maxWithinMS:
			return refuse(field+".timeout_ms", "is %d, want 0 to %d", t.TimeoutMS, int64(maxWithinMS))
		}
		switch t.Effects {
		case events.EffectsNone, events.EffectsIdempotent, events.EffectsNonIdempotent:
		default:
			return refuse(field+".effects", "unknown %q", t.Effects)
		}
		names[t.Name] = true
	}
	return cmp.Or(m.validateHooks(), validateFragments("manifest.prompt", m.Prompt))
}

func refuse(field, format string, args ...any) error {
	return &events.FieldError{Field: field, Reason: fmt.Sprintf(format, args...), Err: events.ErrInvalid}
}

// Registration is the first request of an instance.
type Registration struct {
	Protocol int      `json:"protocol"`       // [Version]
	Instance string   `json:"instance"`       // a token, new at each start of the program
	Term     string   `json:"term,omitempty"` // of the last [Registered]; empty at the first registration of the program
	Manifest Manifest `json:"manifest"`
	// Rollback makes this version the current one again after a later one replaced it.
	Rollback bool `json:"rollback,omitempty"`
}

// Validate checks the limits. Errors: [*events.FieldError].
func (r *Registration) Validate() error {
	if err := events.CheckToken("instance", r.Instance); err != nil {
		return err
	}
	if r.Instance == All {
		return refuse("instance", "is %q, which names all instances", All)
	}
	if r.Term != "" {
		if err := events.CheckToken("term", r.Term); err != nil {
			return err
		}
	}
	return r.Manifest.Validate()
}

// Registered answers a [Registration], and so initialises the instance.
type Registered struct {
	Error   *Error `json:"error,omitempty"`    // the registration is refused
	Hash    string `json:"hash,omitempty"`     // of the manifest
	Term    string `json:"term,omitempty"`     // of the program: no other one with the id of the instance has it
	SignMS  int64  `json:"sign_ms,omitempty"`  // [SignEvery]
	LeaseMS int64  `json:"lease_ms,omitempty"` // [Lease]
}
