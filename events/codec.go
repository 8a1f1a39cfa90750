package events

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"reflect"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
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

// writer collects encoded bytes, in the shortest form of each value. It keeps the first error.
type writer struct {
	b   []byte
	enc *msgpack.Encoder // to b
	err error
}

//nolint:gochecknoglobals // a pool has to be shared to be one
var writers = sync.Pool{New: func() any {
	w := &writer{}
	w.enc = msgpack.NewEncoder(w)
	w.enc.UseCompactInts(true)
	w.enc.SetSortMapKeys(true)
	return w
}}

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

func (w *writer) Write(data []byte) (int, error) {
	w.b = append(w.b, data...)
	return len(data), nil
}

func (w *writer) WriteByte(c byte) error {
	w.b = append(w.b, c)
	return nil
}

func (w *writer) setErr(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *writer) raw(encoded string) *writer {
	w.b = append(w.b, encoded...)
	return w
}

func (w *writer) text(value string) { w.setErr(w.enc.EncodeString(value)) }

func (w *writer) bytes(value []byte) { w.setErr(w.enc.EncodeBytes(value)) }

func (w *writer) str(key, value string) { w.raw(key).text(value) }

func (w *writer) num(key string, value int64) { w.setErr(w.raw(key).enc.EncodeInt(value)) }

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
	w.setErr(w.enc.EncodeMapLen(n))
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
		w.raw("\xa1n").salt(c.Salt)
	}
	w.setErr(w.raw("\xa1e").enc.EncodeArrayLen(len(c.Events)))
	for i := range c.Events {
		w.event(&c.Events[i])
	}
}

func (w *writer) digest(c *Commit) {
	if c.EncryptedDigest != nil {
		w.raw("\xa1d").bytes(c.EncryptedDigest)
		return
	}
	w.str("\xa1d", c.Digest)
}

// salt writes no salts, of a commit without payloads, as nil.
func (w *writer) salt(salt []byte) {
	if len(salt) == 0 {
		salt = nil
	}
	w.bytes(salt)
}

func (w *writer) event(e *Event) {
	n := 3
	if e.Turn != "" {
		n++
	}
	w.setErr(w.enc.EncodeMapLen(n))
	w.str("\xa1k", string(e.Kind))
	w.num("\xa1v", e.V)
	if e.Turn != "" {
		w.str("\xa1u", string(e.Turn))
	}
	if e.Redacted != nil {
		w.raw("\xa1h").bytes(e.Redacted)
		return
	}
	w.raw("\xa1p")
	if e.Encrypted != nil {
		w.bytes(e.Encrypted)
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

// value appends v, a value or a pointer to one. A type outside of the format, of which the library knows more, is [ErrInvalid].
func (w *writer) value(v any) {
	if v != nil {
		if err := codedOf(reflect.TypeOf(v)).err; err != nil {
			w.setErr(err)
			return
		}
	}
	w.setErr(w.enc.Encode(v))
}
