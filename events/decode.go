package events

import (
	"fmt"
	"math"
	"reflect"
	"strings"
)

// Decode decodes a commit. The commit may share memory with data, which must not change afterwards. Unknown kinds
// stay encoded; unknown fields are ignored. Errors wrap [ErrMalformed], [ErrTooLarge], [ErrFutureVersion],
// [ErrInvalid] or [ErrInvalidID]. It never panics, and its allocations are proportional to the size of data, whatever
// lengths data claims.
func Decode(data []byte) (*Commit, error) {
	e, err := DecodeEntry(0, data)
	return e.Commit, err
}

// DecodeEntry is [Decode] of the commit of a sequence. The entry keeps data.
func DecodeEntry(seq Seq, data []byte) (Entry, error) {
	if limit := MaxCommitBytes + maxCiphertexts; len(data) > limit {
		return Entry{}, fmt.Errorf("decode commit: %w", tooLarge("commit", len(data), limit))
	}
	d := &struct { // one allocation for a commit of one event
		commit Commit
		parts  commitParts
		event  [1]Event
		part   [1]eventPart
	}{}
	d.commit.Events, d.parts.events = d.event[:], d.part[:]
	r := newCursor(data)
	r.commit(&d.commit, &d.parts)
	err := r.end()
	if d.parts.finish(data, err); err == nil {
		err = d.commit.Validate()
	}
	if limit := d.commit.limit(); len(data) > limit {
		err = tooLarge("commit", len(data), limit)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("decode commit: %w", err)
	}
	return Entry{Seq: seq, Commit: &d.commit, Data: data, parts: &d.parts}, nil
}

// DecodePayload decodes the output of [EncodePayload] into v, a pointer. Fields without a value in data stay
// unchanged, so v should point to a zero value.
func DecodePayload(data []byte, v any) error {
	r := newCursor(data)
	r.value(v)
	if err := r.end(); err != nil {
		return fmt.Errorf("decode payload: %w", err)
	}
	return nil
}

// DecodePayloadShared is [DecodePayload] without copies of bytes: v may share memory with data, which must not change
// afterwards.
func DecodePayloadShared(data []byte, v any) error {
	r := newCursor(data)
	r.shareBytes = true
	r.value(v)
	if err := r.end(); err != nil {
		return fmt.Errorf("decode payload: %w", err)
	}
	return nil
}

// UnknownTag returns the first tag of an encoded payload that the type of v, a pointer, lacks, and the tags that its struct has. Known is nil
// where the type lacks none.
func UnknownTag(data []byte, v any) (tag string, known []string) {
	r := newCursor(data)
	r.value(reflect.New(reflect.TypeOf(v).Elem()).Interface())
	if r.lacks == nil {
		return "", nil
	}
	for i := range r.lacks.list {
		known = append(known, r.lacks.list[i].tag)
	}
	return strings.Clone(r.unknown), known
}

// value decodes into the target of v.
func (c *cursor) value(v any) {
	target := reflect.ValueOf(v).Elem()
	of := codedOf(target.Type())
	if of.err != nil {
		c.stop(of.err)
		return
	}
	of.fill(c, target)
}

func (c *cursor) end() error {
	if c.err == nil && c.left() > 0 {
		c.fail("%d bytes after the end", c.left())
	}
	return c.err
}

// stop ends decoding with an error other than a syntax error.
func (c *cursor) stop(err error) {
	if c.err == nil {
		c.err = err
	}
	c.at = len(c.data)
}

// commit decodes into a commit and its parts. Both have room for the events of most commits.
func (c *cursor) commit(into *Commit, parts *commitParts) {
	versioned := false
	for n := c.want(typeMap); n > 0 && c.err == nil; n-- {
		at := c.at
		switch c.text() {
		case "f":
			c.format()
			versioned = true
		case "i":
			into.ID = CommitID(c.str())
		case "s":
			into.Session = SessionID(c.str())
		case "t":
			into.At = Millis(c.int())
		case "a":
			into.Actor.Kind = ActorKind(c.str())
		case "b":
			into.Actor.ID = c.str()
		case "c":
			into.Cause = c.str()
		case "k":
			into.Key = c.str()
		case "d":
			c.digest(into)
		case "n":
			into.Salt = []byte(parts.readSalts(c, at))
		case "e":
			parts.beginList(c, at)
			c.events(into, parts)
		default:
			c.raw()
		}
	}
	if !parts.listed {
		into.Events, parts.events = nil, nil
	}
	if !versioned {
		c.fail("no format version")
	}
}

func (c *cursor) format() {
	switch v := c.int(); {
	case v > FormatVersion:
		c.stop(fmt.Errorf("%w: commit format %d, this program reads up to %d", ErrFutureVersion, v, FormatVersion))
	case v < 1:
		c.fail("commit format %d", v)
	}
}

func (c *cursor) events(into *Commit, parts *commitParts) {
	n := c.want(typeArray)
	if n > MaxEvents {
		c.stop(&FieldError{Field: "commit.events", Reason: fmt.Sprintf("holds %d, limit is %d", n, MaxEvents), Err: ErrTooLarge})
		return
	}
	if int(n) != len(into.Events) || parts.loose {
		into.Events, parts.events = make([]Event, n), make([]eventPart, n)
	}
	for i := range into.Events {
		e := &into.Events[i]
		c.event(e, parts, &parts.events[i])
		if c.err != nil {
			c.err = fmt.Errorf("event %d, %s: %w", i, e.Kind, c.err)
			return
		}
	}
}

func (c *cursor) event(e *Event, parts *commitParts, part *eventPart) {
	done := false
	for n := c.want(typeMap); n > 0 && c.err == nil; n-- {
		at := c.at
		tag := c.text()
		if done && (tag == "k" || tag == "v" || tag == "p" || tag == "h") {
			c.fail("%s stands after the payload", tag)
			return
		}
		switch tag {
		case "k":
			e.Kind = Kind(c.str())
		case "v":
			e.V = c.int()
		case "u":
			e.Turn = TurnID(c.str())
		case "p":
			parts.begin(part, c, at)
			c.payload(e)
			part.kind, part.end, done = e.Kind, c.at, true
		case "h":
			parts.begin(part, c, at)
			c.redacted(e, parts, part)
			part.kind, done = e.Kind, true
		default:
			c.raw()
		}
	}
}

// digest decodes the digest of the request, or its ciphertext.
func (c *cursor) digest(into *Commit) {
	if !c.atBytes() {
		into.Digest = c.str()
		return
	}
	into.EncryptedDigest = []byte(c.bytes(c.want(typeBytes)))
}

// atBytes reports whether the next value is bytes.
func (c *cursor) atBytes() bool {
	return c.err == nil && c.left() > 0 && c.data[c.at] >= 0xc4 && c.data[c.at] <= 0xc6
}

// redacted decodes the digest that replaces the body.
func (c *cursor) redacted(e *Event, parts *commitParts, part *eventPart) {
	if e.Kind == "" || e.V < 1 {
		c.fail("kind and version must stand before the digest")
		return
	}
	e.Redacted = []byte(parts.readDigest(part, c))
}

// payload decodes the body. Kind and version precede it, so that it is decoded in place.
func (c *cursor) payload(e *Event) {
	if e.Kind == "" || e.V < 1 {
		c.fail("kind and version must stand before the payload")
		return
	}
	if c.atBytes() {
		c.ciphertext(e)
		return
	}
	c.plainPayload(e)
}

// ciphertext decodes a payload that is encrypted. It stays so until [Entry.Decrypt].
func (c *cursor) ciphertext(e *Event) {
	n := c.want(typeBytes)
	if n > MaxEventBytes+EncryptionBytes {
		c.stop(tooLarge(string(e.Kind), int(min(n, math.MaxInt32)), MaxEventBytes+EncryptionBytes))
		return
	}
	e.Encrypted = []byte(c.bytes(n))
}

// plainPayload decodes a payload that is not encrypted.
func (c *cursor) plainPayload(e *Event) {
	if c.left() > MaxEventBytes {
		c.measure(e.Kind)
	}
	switch info, known := kinds[e.Kind]; {
	case c.err != nil:
	case !known:
		e.Raw = []byte(c.raw())
	case e.V > info.v:
		c.stop(fmt.Errorf("%w: %s version %d, this program reads up to %d", ErrFutureVersion, e.Kind, e.V, info.v))
	default:
		e.Payload = info.new()
		c.value(e.Payload)
	}
}

// measure refuses a payload above the limit before an allocation for it.
func (c *cursor) measure(kind Kind) {
	start := c.at
	if size := len(c.raw()); size > MaxEventBytes {
		c.stop(tooLarge(string(kind), size, MaxEventBytes))
	} else if c.err == nil {
		c.at = start
	}
}
