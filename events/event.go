package events

import (
	"fmt"
	"strconv"
	"strings"
)

// Limits of the format. Every API checks them, and its error names the limit.
const (
	// MaxCommitBytes limits an encoded commit, so that it fits a 1 MiB message with headers.
	MaxCommitBytes = 960 << 10
	// MaxEventBytes limits one encoded payload. Larger bodies are stored as blobs, see [BlobRef].
	MaxEventBytes = 256 << 10
	// MaxEvents limits the events of one commit.
	MaxEvents = 8192
	// MaxIDBytes limits identifiers that occur in payloads only.
	MaxIDBytes = 256
)

// FormatVersion is the version of the commit layout, also in the header Lash-Format.
const FormatVersion = 1

// Kind names an event type: "family.past_tense". A kind is never renamed and never reused.
type Kind string

// Family is the part before the dot.
func (k Kind) Family() string {
	for i := range len(k) {
		if k[i] == '.' {
			return string(k[:i])
		}
	}
	return string(k)
}

// wellFormed reports whether k has a family and a name. The family becomes a subject token.
func (k Kind) wellFormed() bool {
	family, name, ok := strings.Cut(string(k), ".")
	return ok && len(k) <= MaxTokenBytes && isWord(family) && isWord(name)
}

func isWord(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return s != ""
}

// Payload is the typed body of an event: a pointer to the struct of one of the [Kinds].
type Payload interface {
	// Validate returns the first violated rule of the kind as a [*FieldError].
	Validate() error
}

// ActorKind is the role of an actor.
type ActorKind string

// Kinds of actors.
const (
	ActorNode   ActorKind = "node"
	ActorClient ActorKind = "client"
	ActorPlugin ActorKind = "plugin"
	ActorSystem ActorKind = "system"
)

// Actor identifies the party that appended a commit.
type Actor struct {
	Kind ActorKind
	ID   string // may be empty
}

func (a Actor) String() string {
	if a.ID == "" {
		return string(a.Kind)
	}
	return string(a.Kind) + ":" + a.ID
}

// Event is one fact of a session's history.
type Event struct {
	Kind    Kind
	V       int64   // payload version, from 1
	Turn    TurnID  // empty for events outside of turns
	Payload Payload // nil exactly if this program does not know the kind
	Raw     []byte  // encoded payload, of unknown kinds only

	// Encrypted is the ciphertext that is stored in place of the payload; nil where that is stored plain. Without its
	// key Payload and Raw are nil, see [Event.Locked].
	Encrypted []byte

	// Redacted is the digest that replaces the payload in an export; nil where the event has its payload. Then Payload
	// and Raw are nil.
	Redacted []byte
}

// Of makes the event of a payload.
func Of(turn TurnID, p Payload) Event {
	kind := KindOf(p)
	return Event{Kind: kind, V: Version(kind), Turn: turn, Payload: p}
}

// Commit is the content of one append: its events become part of the history all or none.
type Commit struct {
	ID              CommitID
	Session         SessionID
	At              Millis
	Actor           Actor
	Cause           string // id of the command, commit or event that caused this one; may be empty
	Key             string // idempotency key of the causing request; may be empty
	Digest          string // digest of that request with caller, operation and target; empty exactly if Key is
	EncryptedDigest []byte // ciphertext that is stored in place of Digest; nil where that is stored plain
	Salt            []byte // keeps payloads secret of which only the digest is known, see FORMAT.md; nil: payloads have none
	Events          []Event

	encryptedWith Cipher // made the ciphertexts from these events, in this process; nil for a commit that was decoded
}

// EventID is the id of the event at index i.
func (c *Commit) EventID(i int) EventID {
	return EventID(string(c.ID) + "." + strconv.Itoa(i))
}

// Validate checks the envelope and every payload.
func (c *Commit) Validate() error {
	if err := checkID("commit.id", string(c.ID), true); err != nil {
		return err
	}
	if !isVisible(string(c.ID)) {
		return invalid("commit.id", "must be visible ASCII, for it travels as a header")
	}
	if err := CheckToken("commit.session", c.Session); err != nil {
		return err
	}
	if len(c.Events) == 0 || len(c.Events) > MaxEvents {
		return invalid("commit.events", fmt.Sprintf("holds %d events, want 1 to %d", len(c.Events), MaxEvents))
	}
	if err := checkID("commit.actor", c.Actor.ID, false); err != nil {
		return err
	}
	if err := checkID("commit.cause", c.Cause, false); err != nil {
		return err
	}
	digested := c.Digest != "" || c.EncryptedDigest != nil
	if err := checkID("commit.key", c.Key, digested); err != nil {
		return err
	}
	if c.EncryptedDigest != nil && (KeyOf(c.EncryptedDigest) == 0 || len(c.EncryptedDigest) > MaxIDBytes+EncryptionBytes) {
		return invalid("commit.digest", "has no ciphertext as lash writes it")
	}
	if err := checkID("commit.digest", c.Digest, c.Key != "" && !digested); err != nil {
		return err
	}
	switch c.Actor.Kind {
	case ActorNode, ActorClient, ActorPlugin, ActorSystem:
	default:
		return invalid("commit.actor", fmt.Sprintf("unknown kind %q", c.Actor.Kind))
	}
	kept := len(c.Events)
	for i := range c.Events {
		if err := c.Events[i].validate(); err != nil {
			return fmt.Errorf("event %d, %s: %w", i, c.Events[i].Kind, err)
		}
		if c.Events[i].Redacted != nil {
			kept--
		}
	}
	return c.validateSalt(kept)
}

// validateSalt checks the salt: of the commit where all events have their payloads, else of each event that has it.
func (c *Commit) validateSalt(kept int) error {
	want := SaltBytes
	if kept < len(c.Events) {
		want = SaltBytes * kept
	}
	if c.Salt != nil && len(c.Salt) != want {
		return wrongSize("commit.salt", len(c.Salt), want)
	}
	return nil
}

func (e *Event) validate() error {
	if e.Turn != "" {
		if err := CheckToken("event.turn", e.Turn); err != nil {
			return err
		}
	}
	if e.Redacted != nil {
		return e.validateRedacted()
	}
	if e.Encrypted != nil && (e.Payload == nil && e.Raw == nil || KeyOf(e.Encrypted) == 0) {
		return e.validateLocked()
	}
	if e.Payload == nil {
		return e.validateRaw()
	}
	if kind := KindOf(e.Payload); kind != e.Kind || kind == "" {
		return invalid("event.kind", "is not the payload's "+string(kind))
	}
	if v := Version(e.Kind); e.V != v || v == 0 {
		return invalid("event.version", fmt.Sprintf("is %d, this program writes %d", e.V, v))
	}
	return e.Payload.Validate()
}

// validateRaw checks an event of unknown kind, so that it can be encoded again.
func (e *Event) validateRaw() error {
	switch {
	case Version(e.Kind) != 0 || len(e.Raw) == 0:
		return invalid("event.payload", "is missing")
	case !e.Kind.wellFormed():
		return invalid("event.kind", "must be family.past_tense of a-z 0-9 _, at most 64 bytes")
	case e.V < 1:
		return invalid("event.version", "must be at least 1")
	}
	r := newCursor(e.Raw)
	r.raw()
	if err := r.end(); err != nil {
		return invalid("event.payload", err.Error())
	}
	return nil
}

// validateRedacted checks an event without its payload.
func (e *Event) validateRedacted() error {
	switch {
	case e.Payload != nil || e.Raw != nil || e.Encrypted != nil || len(e.Redacted) != DigestBytes:
		return invalid("event.digest", fmt.Sprintf("must have %d bytes, and replaces the payload", DigestBytes))
	case !e.Kind.wellFormed():
		return invalid("event.kind", "must be family.past_tense of a-z 0-9 _, at most 64 bytes")
	case e.Kind == KindAuditHeadSigned:
		return invalid("event.digest", "replaces a head, which is never redacted")
	case e.V < 1:
		return invalid("event.version", "must be at least 1")
	}
	return nil
}

func invalid(field, reason string) error {
	return &FieldError{Field: field, Reason: reason, Err: ErrInvalid}
}

// isVisible reports whether a header can carry s unchanged.
func isVisible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func checkID(field, id string, required bool) error {
	if id == "" && required {
		return invalid(field, "is empty")
	}
	if len(id) > MaxIDBytes {
		return &FieldError{Field: field, Reason: fmt.Sprintf("has %d bytes, limit is %d", len(id), MaxIDBytes), Err: ErrInvalid}
	}
	return nil
}
