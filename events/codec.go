package events

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// Encode writes c in the commit format of FORMAT.md. It validates first:
// what is encoded can be decoded. Errors wrap [ErrInvalid], [ErrInvalidID] or [ErrTooLarge].
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
	if w.buf.Len() > MaxCommitBytes {
		return nil, tooLarge("commit", w.buf.Len(), MaxCommitBytes)
	}
	return bytes.Clone(w.buf.Bytes()), nil
}

// EncodePayload writes a payload, or any of the value types inside one.
// Equal values give equal bytes, so a digest of them identifies the value.
func EncodePayload(v any) ([]byte, error) {
	w := newWriter()
	defer w.release()
	if err := w.enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode payload: %w", err)
	}
	return bytes.Clone(w.buf.Bytes()), nil
}

func tooLarge(field string, size, limit int) error {
	return &FieldError{Field: field, Reason: fmt.Sprintf("has %d bytes, limit is %d", size, limit), Err: ErrTooLarge}
}

// writer is the one place where the msgpack encoder is configured.
type writer struct {
	buf bytes.Buffer
	enc *msgpack.Encoder
	err error
}

//nolint:gochecknoglobals // a pool has to be shared to be one
var writers = sync.Pool{New: func() any {
	w := &writer{}
	w.enc = msgpack.NewEncoder(&w.buf)
	w.enc.UseCompactInts(true)
	w.enc.SetSortMapKeys(true)
	return w
}}

func newWriter() *writer {
	w := writers.Get().(*writer)
	w.buf.Reset()
	w.err = nil
	return w
}

func (w *writer) release() {
	if w.buf.Cap() <= MaxCommitBytes {
		writers.Put(w)
	}
}

func (w *writer) note(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *writer) str(key, value string) {
	w.note(w.enc.EncodeString(key))
	w.note(w.enc.EncodeString(value))
}

func (w *writer) num(key string, value int64) {
	w.note(w.enc.EncodeString(key))
	w.note(w.enc.EncodeInt(value))
}

func (w *writer) commit(c *Commit) {
	n := 6
	if c.Actor.ID != "" {
		n++
	}
	if c.Cause != "" {
		n++
	}
	w.note(w.enc.EncodeMapLen(n))
	w.num("f", FormatVersion)
	w.str("i", string(c.ID))
	w.str("s", string(c.Session))
	w.num("t", int64(c.At))
	w.str("a", string(c.Actor.Kind))
	if c.Actor.ID != "" {
		w.str("b", c.Actor.ID)
	}
	if c.Cause != "" {
		w.str("c", c.Cause)
	}
	w.note(w.enc.EncodeString("e"))
	w.note(w.enc.EncodeArrayLen(len(c.Events)))
	for i := range c.Events {
		w.event(&c.Events[i])
	}
}

func (w *writer) event(e *Event) {
	n := 3
	if e.Turn != "" {
		n++
	}
	w.note(w.enc.EncodeMapLen(n))
	w.str("k", string(e.Kind))
	w.num("v", e.V)
	if e.Turn != "" {
		w.str("u", string(e.Turn))
	}
	w.note(w.enc.EncodeString("p"))
	start := w.buf.Len()
	if e.Payload != nil {
		w.note(w.enc.Encode(e.Payload))
	} else {
		w.buf.Write(e.Raw)
	}
	if size := w.buf.Len() - start; size > MaxEventBytes {
		w.note(tooLarge(string(e.Kind), size, MaxEventBytes))
	}
}
