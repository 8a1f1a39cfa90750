package events

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// EncryptionBytes is how much longer a ciphertext may be than what it encrypts.
const EncryptionBytes = 32

// maxCiphertexts bounds how much longer an encrypted commit may be than the limit of a plain one, in bytes.
const maxCiphertexts = 40 << 10

// ciphertextHeader is the form of a ciphertext: the byte 1, the key's id as 4 bytes, big-endian, and 16 bytes that
// authenticate it, before the encrypted text.
const ciphertextHeader = 1 + 4 + 16

// Cipher encrypts payloads. Its type is comparable. Calls may overlap. [Encrypted] and [Entry.Decrypt] call it.
type Cipher interface {
	// Encrypt returns the ciphertext of a text at a place, in the form of FORMAT.md. Equal calls have equal results.
	Encrypt(text, place []byte) ([]byte, error)
	// Decrypt is the inverse of Encrypt. Errors: a [*KeyError] where it does not have the key; [ErrMalformed] where the
	// ciphertext was changed, or is of another place.
	Decrypt(ciphertext, place []byte) ([]byte, error)
}

// KeyError is a body that is encrypted with a key which is not here. It wraps [ErrLocked].
type KeyError struct{ ID uint32 }

func (e *KeyError) Error() string {
	return fmt.Sprintf("encrypted with key %d, which is not here", e.ID)
}

// Unwrap returns [ErrLocked].
func (e *KeyError) Unwrap() error { return ErrLocked }

// KeyOf is the id of the key of a ciphertext; 0 for bytes that are none.
func KeyOf(ciphertext []byte) uint32 {
	if len(ciphertext) < ciphertextHeader || ciphertext[0] != 1 {
		return 0
	}
	return binary.BigEndian.Uint32(ciphertext[1:])
}

// Absent reports whether the payload is not here: a digest replaces it, or its key is not here. Such an event folds to
// nothing.
func (e *Event) Absent() bool { return e.Redacted != nil || e.Locked() != 0 }

// Locked is the id of the key without which the payload cannot be read; 0 where it is not encrypted, or is decrypted.
func (e *Event) Locked() uint32 {
	if e.Payload != nil || e.Raw != nil {
		return 0
	}
	return KeyOf(e.Encrypted)
}

// Locked is the first event's [Event.Locked] that is not 0.
func (c *Commit) Locked() uint32 {
	for i := range c.Events {
		if id := c.Events[i].Locked(); id != 0 {
			return id
		}
	}
	return 0
}

// HasCiphertext reports whether the stored encoding has a ciphertext in place of a payload, whether its key is here or not.
func (c *Commit) HasCiphertext() bool {
	return slices.ContainsFunc(c.Events, func(ev Event) bool { return ev.Encrypted != nil })
}

// Encrypted returns a copy of a commit whose encoding has ciphertexts in place of the payloads, and of the digest of
// its request. Heads stay as they are. The copy keeps the payloads in memory. What the same cipher encrypted here keeps its
// ciphertext: a commit is signed as it is stored, and then encoded. Errors: those of [Encode] for one payload.
func Encrypted(c *Commit, with Cipher) (*Commit, error) {
	out := *c
	out.Events = slices.Clone(c.Events)
	out.encryptedWith = with
	again := c.encryptedWith == with
	var err error
	if c.Digest != "" && (!again || c.EncryptedDigest == nil) {
		if out.EncryptedDigest, err = with.Encrypt([]byte(c.Digest), c.digestPlace()); err != nil {
			return nil, fmt.Errorf("encrypt commit: %w", err)
		}
	}
	for i := range out.Events {
		ev := &out.Events[i]
		if ev.Kind == KindAuditHeadSigned || ev.Payload == nil && ev.Raw == nil || again && ev.Encrypted != nil {
			continue
		}
		if ev.Encrypted, err = ev.encrypted(with, c.payloadPlace(i)); err != nil {
			return nil, fmt.Errorf("encrypt commit: event %d, %s: %w", i, ev.Kind, err)
		}
	}
	return &out, nil
}

func (e *Event) encrypted(with Cipher, place []byte) ([]byte, error) {
	w := newWriter()
	defer w.release()
	if e.Payload != nil {
		w.value(e.Payload)
	} else {
		w.b = append(w.b, e.Raw...)
	}
	if w.err == nil && len(w.b) > MaxEventBytes {
		w.err = tooLarge(string(e.Kind), len(w.b), MaxEventBytes)
	}
	if w.err != nil {
		return nil, w.err
	}
	return with.Encrypt(w.b, place)
}

// Decrypt decrypts the payloads and the digest of an entry. Those whose key is not here stay encrypted: see
// [Event.Locked]. Errors: [ErrMalformed] for a ciphertext that was changed or moved, and those of [Decode] for what is
// decrypted.
func (e *Entry) Decrypt(with Cipher) error {
	c := e.Commit
	if c.EncryptedDigest != nil && c.Digest == "" {
		digest, err := decrypt(with, c.EncryptedDigest, c.digestPlace())
		if err != nil {
			return fmt.Errorf("digest of commit %s: %w", c.ID, err)
		}
		c.Digest = string(digest)
	}
	for i := range c.Events {
		if err := c.decryptEvent(with, i); err != nil {
			return fmt.Errorf("event %d, %s: %w", i, c.Events[i].Kind, err)
		}
	}
	return nil
}

// decryptEvent decrypts the payload at an index.
func (c *Commit) decryptEvent(with Cipher, i int) error {
	ev := &c.Events[i]
	if ev.Locked() == 0 {
		return nil
	}
	body, err := decrypt(with, ev.Encrypted, c.payloadPlace(i))
	if err != nil || body == nil {
		return err
	}
	r := newCursor(body)
	r.plainPayload(ev)
	if err := r.end(); err != nil {
		return err
	}
	return ev.validate()
}

// decrypt returns nil where the key is not here.
func decrypt(with Cipher, ciphertext, place []byte) ([]byte, error) {
	text, err := with.Decrypt(ciphertext, place)
	if errors.Is(err, ErrLocked) {
		return nil, nil
	}
	return text, err
}

// payloadPlace is the associated data of the payload at an index: a ciphertext opens nowhere else.
func (c *Commit) payloadPlace(i int) []byte {
	ev := &c.Events[i]
	return AssociatedData("payload", string(c.Session), string(c.EventID(i)), string(ev.Kind), strconv.FormatInt(ev.V, 10), string(ev.Turn))
}

func (c *Commit) digestPlace() []byte {
	return AssociatedData("digest", string(c.Session), string(c.ID))
}

// AssociatedData encodes the names of a place, for a [Cipher]. Different names have different encodings.
func AssociatedData(names ...string) []byte {
	w := newWriter()
	defer w.release()
	for _, name := range names {
		w.text(name)
	}
	return bytes.Clone(w.b)
}

// limit is the largest encoding of the commit, in bytes: that of a plain one, and what its ciphertexts add.
func (c *Commit) limit() int {
	added := 0
	for i := range c.Events {
		if n := len(c.Events[i].Encrypted); n > 0 {
			added += ciphertextHeader + bytesHeader(n)
		}
	}
	if added > 0 && c.EncryptedDigest != nil {
		added += ciphertextHeader
	}
	return MaxCommitBytes + min(added, maxCiphertexts)
}

// validateLocked checks an event whose key is not here.
func (e *Event) validateLocked() error {
	switch {
	case KeyOf(e.Encrypted) == 0 || len(e.Encrypted) > MaxEventBytes+EncryptionBytes:
		return invalid("event.payload", "has no ciphertext as lash writes it")
	case !e.Kind.wellFormed():
		return invalid("event.kind", "must be family.past_tense of a-z 0-9 _, at most 64 bytes")
	case e.Kind == KindAuditHeadSigned:
		return invalid("event.payload", "is that of a head, which is never encrypted")
	case e.V < 1:
		return invalid("event.version", "must be at least 1")
	}
	return nil
}
