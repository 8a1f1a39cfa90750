package events

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// SaltBytes is the size of a commit's salt, and of the salt of one event.
const SaltBytes = 16

// DigestBytes is the size of a digest that replaces a payload, and of a hash of the tree.
const DigestBytes = sha256.Size

// signatureBytes is the size of a head's signature, which ends its payload.
const signatureBytes = 64

// signatureHead begins the value of a head's signature.
const signatureHead = "\xc4\x40"

// LeafHash is the hash of a commit in the session's tree: RFC 6962's hash of a leaf, of the commit's leaf data as
// FORMAT.md defines them. data is the stored encoding. A commit and its redacted forms have the same hash.
func LeafHash(data []byte) [DigestBytes]byte {
	w := newWriter()
	defer w.release()
	w.b = append(w.b, 0) // of leaves
	if parts, ok := partsOf(data); ok {
		parts.write(w, data, nil)
	} else {
		w.b = append(w.b, data...)
	}
	return sha256.Sum256(w.b)
}

// LeafOf is the LeafHash of the encoding of c. The encoding is not checked otherwise. Errors: those of [Encode].
func LeafOf(c *Commit) ([DigestBytes]byte, error) {
	w := newWriter()
	defer w.release()
	w.commit(c)
	if len(w.b) > MaxCommitBytes {
		w.setErr(tooLarge("commit", len(w.b), MaxCommitBytes))
	}
	if w.err != nil {
		return [DigestBytes]byte{}, fmt.Errorf("leaf of commit: %w", w.err)
	}
	return LeafHash(w.b), nil
}

// Redact replaces payloads of a stored commit by their digests. The commit keeps its LeafHash. Heads stay. keep
// says which other events stay; the index is that in the commit. Error: [ErrMalformed], also where another program
// wrote the commit in a form of its own.
func Redact(data []byte, keep func(index int, kind Kind) bool) ([]byte, error) {
	parts, ok := partsOf(data)
	if !ok {
		return nil, fmt.Errorf("redact commit: %w: the encoding is not the shortest", ErrMalformed)
	}
	stays := make([]bool, len(parts.events))
	redacted := false
	for i := range stays {
		p := &parts.events[i]
		stays[i] = !p.redacted && (p.kind == KindAuditHeadSigned || keep(i, p.kind))
		redacted = redacted || !stays[i]
	}
	w := &writer{}
	if !redacted {
		return append(w.b, data...), nil
	}
	parts.write(w, data, stays)
	return w.b, nil
}

// commitParts are the places in an encoded commit that redaction changes.
type commitParts struct {
	salted          bool // there is a pair n
	saltAt, saltEnd int  // its value
	salts           string
	events          []eventPart
	kept            int // number of events with a payload
}

// eventPart is the pair p or h of an event.
type eventPart struct {
	kind     Kind
	at       int // of the key
	value    int // of the value
	end      int
	redacted bool
}

// partsOf finds the parts of a commit. It fails where their encoding is not the one that writers use, so that a
// commit has exactly one encoding with its leaf data, beside the redacted forms.
func partsOf(data []byte) (*commitParts, bool) {
	c := newCursor(data)
	p := &commitParts{}
	listed := false
	for n := c.want(formMap); n > 0 && c.err == nil; n-- {
		at := c.at
		switch tag := c.text(); tag {
		case "n":
			if p.salted || c.at != at+2 {
				return nil, false
			}
			p.salted = true
			p.saltAt = c.at
			p.salts = c.shortBytes()
			p.saltEnd = c.at
		case "e":
			if listed || c.at != at+2 {
				return nil, false
			}
			listed = true
			c.parts(p)
		default:
			c.raw()
		}
	}
	if c.end() != nil || !listed {
		return nil, false
	}
	return p, p.saltsFit()
}

// saltsFit reports whether the salts are those of the form: one of the commit where no event is redacted, else one of
// each event with a payload.
func (p *commitParts) saltsFit() bool {
	switch {
	case !p.salted:
		return true
	case p.kept == len(p.events):
		return len(p.salts) == SaltBytes
	}
	return len(p.salts) == SaltBytes*p.kept && (p.kept > 0 || p.saltEnd == p.saltAt+1)
}

// shortBytes reads bytes with the shortest head, or nil.
func (c *cursor) shortBytes() string {
	at := c.at
	n, isNil := c.wantOrNil(formBytes)
	b := c.bytes(n)
	if shortest := len(appendBytes(nil, []byte(b))); !isNil && c.at-at != shortest {
		c.fail("the head of bytes is not the shortest")
	}
	return b
}

func (c *cursor) parts(p *commitParts) {
	n := c.want(formArray)
	if n > MaxEvents {
		c.fail("%d events", n)
		return
	}
	p.events = make([]eventPart, n)
	for i := range p.events {
		c.part(&p.events[i])
		if !p.events[i].redacted {
			p.kept++
		}
	}
}

func (c *cursor) part(e *eventPart) {
	found := false
	for n := c.want(formMap); n > 0 && c.err == nil; n-- {
		at := c.at
		switch tag := c.text(); tag {
		case "k":
			e.kind = Kind(c.text())
		case "p", "h":
			if found || c.at != at+2 {
				c.fail("the payload is not the only one")
				return
			}
			found = true
			e.at, e.value, e.redacted = at, c.at, tag == "h"
			if e.redacted && len(c.shortBytes()) != DigestBytes {
				c.fail("a digest has another size")
			} else if !e.redacted {
				c.raw()
			}
			e.end = c.at
		default:
			c.raw()
		}
	}
	if !found {
		c.fail("no payload")
	}
}

// write appends the commit with digests in place of payloads. stays has the events that keep theirs; nil: none.
func (p *commitParts) write(w *writer, data []byte, stays []bool) {
	if !p.salted {
		p.writeEvents(w, data, 0, stays)
		return
	}
	w.b = append(w.b, data[:p.saltAt]...)
	var salts []byte
	for i := range stays {
		if stays[i] {
			salts = append(salts, p.salt(i)...)
		}
	}
	w.b = appendBytes(w.b, salts)
	p.writeEvents(w, data, p.saltEnd, stays)
}

// writeEvents appends data from a place on.
func (p *commitParts) writeEvents(w *writer, data []byte, from int, stays []bool) {
	for i := range p.events {
		e := &p.events[i]
		if e.redacted || stays != nil && stays[i] {
			continue
		}
		w.b = append(w.b, data[from:e.at]...)
		sum := p.digest(i, data[e.value:e.end])
		w.b = append(append(w.b, "\xa1h\xc4\x20"...), sum[:]...)
		from = e.end
	}
	w.b = append(w.b, data[from:]...)
}

// digest is the digest that replaces the payload of an event: of its salt and of the payload, without the signature
// of a head.
func (p *commitParts) digest(i int, payload []byte) [DigestBytes]byte {
	if n := len(payload) - signatureBytes; p.events[i].kind == KindAuditHeadSigned && n > 2 && string(payload[n-2:n]) == signatureHead {
		payload = payload[:n]
	}
	if !p.salted {
		return sha256.Sum256(payload)
	}
	w := newWriter()
	defer w.release()
	w.b = append(append(w.b, p.salt(i)...), payload...)
	return sha256.Sum256(w.b)
}

// salt is the salt of an event with a payload.
func (p *commitParts) salt(i int) []byte {
	if p.kept == len(p.events) {
		sum := sha256.Sum256(binary.BigEndian.AppendUint16([]byte(p.salts), uint16(i)))
		return sum[:SaltBytes]
	}
	at := 0
	for k := range i {
		if !p.events[k].redacted {
			at += SaltBytes
		}
	}
	return []byte(p.salts[at : at+SaltBytes])
}
