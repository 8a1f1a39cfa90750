// Package bodykey has the keys that encrypt the bodies of a tenant: payloads of events, and every other copy of what a
// session says. It may import events; it does no I/O. Package session/keyring keeps the keys in files.
//
// # Decision
//
// The cipher is AES-SIV of RFC 5297 with keys of 64 bytes, by the keysets of Tink. It is deterministic: an append or a
// blob that is written again has the same bytes, so the rules against doubles still hold, and a node needs no counter that
// a restart could lose. What it shows is that two equal bodies at the same place are equal. Payloads have no two equal
// places, because a place has the id of the event.
//
// A keyset has one current key, which encrypts, and older ones, which only decrypt. Each ciphertext begins with the id
// of its key. Removing a key from all keysets erases what it encrypts.
//
// Associated data bind a ciphertext to its place: [events.Place].
package bodykey

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/tink-crypto/tink-go/v2/daead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/lash-go/lash/events"
)

// maxKeys limits the keys of a set.
const maxKeys = 64

// Keys is a set of keys. It does not change, and is safe for concurrent use.
type Keys struct {
	handle  *keyset.Handle
	current uint32
	all     tink.DeterministicAEAD
	each    []one // the current one first
}

// one encrypts with one key of the set.
type one struct {
	id     uint32
	cipher tink.DeterministicAEAD
}

// New makes a set of one new key.
func New() (*Keys, error) { return newKey(keyset.NewManager()) }

func newKey(m *keyset.Manager) (*Keys, error) {
	id, err := m.Add(daead.AESSIVKeyTemplate())
	if err == nil {
		err = m.SetPrimary(id)
	}
	if err != nil {
		return nil, fmt.Errorf("new key of bodies: %w", err)
	}
	return fromManager(m)
}

func fromManager(m *keyset.Manager) (*Keys, error) {
	handle, err := m.Handle()
	if err != nil {
		return nil, fmt.Errorf("keys of bodies: %w", err)
	}
	return fromHandle(handle)
}

// Parse reads a set in Tink's form of JSON. Errors: [events.ErrMalformed], also for keys of another kind.
func Parse(text []byte) (*Keys, error) {
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(text)))
	if err != nil {
		return nil, fmt.Errorf("keys of bodies: %w: %w", events.ErrMalformed, err)
	}
	return fromHandle(handle)
}

func fromHandle(handle *keyset.Handle) (*Keys, error) {
	if n := handle.Len(); n > maxKeys {
		return nil, fmt.Errorf("keys of bodies: %w: %d keys, limit is %d", events.ErrMalformed, n, maxKeys)
	}
	k := &Keys{handle: handle}
	primary, err := handle.Primary()
	if err == nil {
		k.current = primary.KeyID()
		k.all, err = daead.New(handle)
	}
	for i := 0; i < handle.Len() && err == nil; i++ {
		err = k.addOne(i)
	}
	if err != nil {
		return nil, fmt.Errorf("keys of bodies: %w: %w", events.ErrMalformed, err)
	}
	return k, k.check()
}

// addOne adds the cipher of the key at an index of the handle. Disabled keys have none.
func (k *Keys) addOne(i int) error {
	entry, err := k.handle.Entry(i)
	if err != nil || entry.KeyStatus() != keyset.Enabled {
		return err
	}
	m := keyset.NewManagerFromHandle(k.handle)
	if err := m.SetPrimary(entry.KeyID()); err != nil {
		return err
	}
	handle, err := m.Handle()
	if err != nil {
		return err
	}
	cipher, err := daead.New(handle)
	if err != nil {
		return err
	}
	if entry.KeyID() == k.current {
		k.each = append([]one{{entry.KeyID(), cipher}}, k.each...)
	} else {
		k.each = append(k.each, one{entry.KeyID(), cipher})
	}
	return nil
}

// check refuses keys whose ciphertexts do not name their key.
func (k *Keys) check() error {
	for _, key := range k.each {
		ciphertext, err := key.cipher.EncryptDeterministically(nil, nil)
		if err != nil || events.KeyOf(ciphertext) != key.id || len(ciphertext) > events.EncryptionBytes {
			return fmt.Errorf("keys of bodies: %w: key %d is no AES-SIV key with the output prefix TINK", events.ErrMalformed, key.id)
		}
	}
	return nil
}

// Text is the set in Tink's form of JSON. It is secret.
func (k *Keys) Text() ([]byte, error) {
	var out bytes.Buffer
	if err := insecurecleartextkeyset.Write(k.handle, keyset.NewJSONWriter(&out)); err != nil {
		return nil, fmt.Errorf("keys of bodies: %w", err)
	}
	return append(bytes.TrimSpace(out.Bytes()), '\n'), nil
}

// Add returns the set with a new key, which is not the current one yet, and its id.
func (k *Keys) Add() (*Keys, uint32, error) {
	m := keyset.NewManagerFromHandle(k.handle)
	id, err := m.Add(daead.AESSIVKeyTemplate())
	if err != nil {
		return nil, 0, fmt.Errorf("add a key of bodies: %w", err)
	}
	out, err := fromManager(m)
	return out, id, err
}

// Use returns the set with another current key.
func (k *Keys) Use(id uint32) (*Keys, error) {
	m := keyset.NewManagerFromHandle(k.handle)
	if err := m.SetPrimary(id); err != nil {
		return nil, fmt.Errorf("use key %d: %w", id, err)
	}
	return fromManager(m)
}

// Forget returns the set without a key. The current key cannot be forgotten.
func (k *Keys) Forget(id uint32) (*Keys, error) {
	if id == k.current {
		return nil, fmt.Errorf("key %d is the current one: use another one first, on every node", id)
	}
	m := keyset.NewManagerFromHandle(k.handle)
	if err := m.Delete(id); err != nil {
		return nil, fmt.Errorf("forget key %d: %w", id, err)
	}
	return fromManager(m)
}

// Current is the id of the key that encrypts.
func (k *Keys) Current() uint32 { return k.current }

// IDs lists the ids of the keys, the current one first.
func (k *Keys) IDs() []uint32 {
	list := make([]uint32, len(k.each))
	for i, key := range k.each {
		list[i] = key.id
	}
	return list
}

// Encrypt implements [events.Cipher] with the current key.
func (k *Keys) Encrypt(text, place []byte) ([]byte, error) {
	return k.all.EncryptDeterministically(text, place)
}

// Decrypt implements [events.Cipher] with the key that the ciphertext names.
func (k *Keys) Decrypt(ciphertext, place []byte) ([]byte, error) {
	id := events.KeyOf(ciphertext)
	for _, key := range k.each {
		if key.id != id {
			continue
		}
		text, err := k.all.DecryptDeterministically(ciphertext, place)
		if err != nil {
			return nil, fmt.Errorf("%w: the ciphertext was changed, or is of another place; or the key with the id %d is another one", events.ErrMalformed, id)
		}
		if text == nil {
			text = []byte{}
		}
		return text, nil
	}
	if id == 0 {
		return nil, fmt.Errorf("%w: no ciphertext", events.ErrMalformed)
	}
	return nil, &events.KeyError{ID: id}
}

// Names are the names under which a body of a digest may be stored, one of each key, the current one first. They tell
// nothing of the digest to readers without the keys.
func (k *Keys) Names(digest string) ([]string, error) {
	sum, err := hex.DecodeString(digest)
	if err != nil || len(sum) != events.DigestBytes {
		return nil, fmt.Errorf("%w: digest %q", events.ErrInvalid, digest)
	}
	list := make([]string, len(k.each))
	for i, key := range k.each {
		name, err := key.cipher.EncryptDeterministically(sum, namePlace())
		if err != nil {
			return nil, err
		}
		list[i] = hex.EncodeToString(name)
	}
	return list, nil
}

// Digest is the digest of a body that is stored under one of its Names. Errors: those of [Keys.Decrypt].
func (k *Keys) Digest(name string) (string, error) {
	ciphertext, err := hex.DecodeString(name)
	if err != nil {
		return "", fmt.Errorf("%w: name of a body", events.ErrMalformed)
	}
	sum, err := k.Decrypt(ciphertext, namePlace())
	return hex.EncodeToString(sum), err
}

func namePlace() []byte { return events.AssociatedData("name of a body") }

// magic begins a stored body that is encrypted.
const magic = "LASHENC1"

// IsStored reports whether a stored body is encrypted.
func IsStored(stored []byte) bool { return bytes.HasPrefix(stored, []byte(magic)) }

// Store encrypts a body that is not an event's payload. place names where it is; nil for one that its digest names.
func (k *Keys) Store(body []byte, place ...string) ([]byte, error) {
	ciphertext, err := k.Encrypt(body, events.AssociatedData(append([]string{"body"}, place...)...))
	if err != nil {
		return nil, fmt.Errorf("encrypt body: %w", err)
	}
	return append([]byte(magic), ciphertext...), nil
}

// Load is the inverse of Store. A body that is stored plain is returned as it is. k may be nil. Errors: those of
// [Keys.Decrypt].
func (k *Keys) Load(stored []byte, place ...string) ([]byte, error) {
	if !IsStored(stored) {
		return stored, nil
	}
	ciphertext := stored[len(magic):]
	if k == nil {
		if id := events.KeyOf(ciphertext); id != 0 {
			return nil, &events.KeyError{ID: id}
		}
		return nil, fmt.Errorf("%w: no ciphertext", events.ErrMalformed)
	}
	return k.Decrypt(ciphertext, events.AssociatedData(append([]string{"body"}, place...)...))
}

// OverheadBytes is how much longer a stored body is than the body.
const OverheadBytes = len(magic) + events.EncryptionBytes

// ErrWrong is a store whose bodies are encrypted with other keys.
var ErrWrong = errors.New("the store's bodies are encrypted with another key")

// checkText is what the check of a store encrypts.
const checkText = "lash bodies"

// Check is a ciphertext by which [Keys.Opens] finds out whether a set is that of a store.
func (k *Keys) Check() ([]byte, error) { return k.Store([]byte(checkText), "check") }

// Opens reports whether a set has the key of a check. Errors: [ErrWrong].
func (k *Keys) Opens(check []byte) error {
	text, err := k.Load(check, "check")
	if err != nil || !IsStored(check) || string(text) != checkText {
		return fmt.Errorf("%w: key %d", ErrWrong, KeyOfStored(check))
	}
	return nil
}

// KeyOfStored is the id of the key of a stored body; 0 for one that is not encrypted.
func KeyOfStored(stored []byte) uint32 {
	if !IsStored(stored) {
		return 0
	}
	return events.KeyOf(stored[len(magic):])
}
