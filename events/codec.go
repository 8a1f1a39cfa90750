package events

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"sync"
)

// Encode encodes c in the commit format of FORMAT.md. It validates first, so that every encoded commit can be
// decoded. Errors wrap [ErrInvalid], [ErrInvalidID] or [ErrTooLarge].
func Encode(c *Commit) ([]byte, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("encode commit: %w", err)
	}
	w := newWriter()
	defer w.release()
	w.commit(c)
	if w.err != nil {
		return nil, fmt.Errorf("encode commit: %w", w.err)
	}
	if limit := c.limit(); len(w.b) > limit {
		return nil, tooLarge("commit", len(w.b), limit)
	}
	return bytes.Clone(w.b), nil
}

// EncodePayload encodes a payload, another value whose type is part of the format, or a pointer to one. Equal values
// have equal bytes, so a digest identifies the value. A type outside of the format is [ErrInvalid], whatever its
// value.
func EncodePayload(v any) (data []byte, err error) {
	err = encodePayload(v, func(b []byte) { data = bytes.Clone(b) })
	return data, err
}

// PayloadSum is the sha256 of what [EncodePayload] returns for v.
func PayloadSum(v any) (sum [sha256.Size]byte, err error) {
	err = encodePayload(v, func(b []byte) { sum = sha256.Sum256(b) })
	return sum, err
}

// encodePayload encodes into bytes that use must not keep.
func encodePayload(v any, use func([]byte)) error {
	w := newWriter()
	defer w.release()
	if w.value(v); w.err != nil {
		return fmt.Errorf("encode payload: %w", w.err)
	}
	use(w.b)
	return nil
}

func tooLarge(field string, size, limit int) error {
	return &FieldError{Field: field, Reason: fmt.Sprintf("has %d bytes, limit is %d", size, limit), Err: ErrTooLarge}
}

// writer collects encoded bytes. It keeps the first error.
type writer struct {
	b   []byte
	err error
}

//nolint:gochecknoglobals // a pool has to be shared to be one
var writers = sync.Pool{New: func() any { return &writer{} }}

func newWriter() *writer {
	w := writers.Get().(*writer)
	w.b, w.err = w.b[:0], nil
	return w
}

func (w *writer) release() {
	if cap(w.b) <= MaxCommitBytes {
		writers.Put(w)
	}
}

func (w *writer) setErr(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *writer) str(key, value string) { w.b = appendText(append(w.b, key...), value) }

func (w *writer) num(key string, value int64) { w.b = appendInt(append(w.b, key...), value) }

func (w *writer) commit(c *Commit) {
	n := 6
	if c.Actor.ID != "" {
		n++
	}
	if c.Cause != "" {
		n++
	}
	if c.Key != "" {
		n += 2
	}
	if c.Salt != nil {
		n++
	}
	w.b = appendMapHeader(w.b, n)
	w.num("\xa1f", FormatVersion)
	w.str("\xa1i", string(c.ID))
	w.str("\xa1s", string(c.Session))
	w.num("\xa1t", int64(c.At))
	w.str("\xa1a", string(c.Actor.Kind))
	if c.Actor.ID != "" {
		w.str("\xa1b", c.Actor.ID)
	}
	if c.Cause != "" {
		w.str("\xa1c", c.Cause)
	}
	if c.Key != "" {
		w.str("\xa1k", c.Key)
		w.digest(c)
	}
	if c.Salt != nil {
		w.b = appendSalt(append(w.b, "\xa1n"...), c.Salt)
	}
	w.b = appendArrayHeader(append(w.b, "\xa1e"...), len(c.Events))
	for i := range c.Events {
		w.event(&c.Events[i])
	}
}

func (w *writer) digest(c *Commit) {
	if c.EncryptedDigest != nil {
		w.b = appendBytes(append(w.b, "\xa1d"...), c.EncryptedDigest)
		return
	}
	w.str("\xa1d", c.Digest)
}

// appendSalt writes no salts, of a commit without payloads, as nil.
func appendSalt(b, salt []byte) []byte {
	if len(salt) == 0 {
		return append(b, 0xc0)
	}
	return appendBytes(b, salt)
}

func (w *writer) event(e *Event) {
	n := 3
	if e.Turn != "" {
		n++
	}
	w.b = appendMapHeader(w.b, n)
	w.str("\xa1k", string(e.Kind))
	w.num("\xa1v", e.V)
	if e.Turn != "" {
		w.str("\xa1u", string(e.Turn))
	}
	if e.Redacted != nil {
		w.b = appendBytes(append(w.b, "\xa1h"...), e.Redacted)
		return
	}
	w.b = append(w.b, "\xa1p"...)
	if e.Encrypted != nil {
		w.b = appendBytes(w.b, e.Encrypted)
		return
	}
	start := len(w.b)
	if e.Payload != nil {
		w.value(e.Payload)
	} else {
		w.b = append(w.b, e.Raw...)
	}
	if size := len(w.b) - start; size > MaxEventBytes {
		w.setErr(tooLarge(string(e.Kind), size, MaxEventBytes))
	}
}

// value appends v, a value or a pointer to one.
func (w *writer) value(v any) {
	var err error
	w.b, err = appendValue(w.b, v)
	w.setErr(err)
}
