package events

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"
)

// SaltBytes is the size of a commit's salt, and of the salt of one event.
const SaltBytes = 16

// DigestBytes is the size of a digest that replaces a payload, and of a hash of the tree.
const DigestBytes = sha256.Size

// signatureBytes is the size of a head's signature, which ends its payload.
const signatureBytes = 64

// signatureHeader begins the value of a head's signature.
const signatureHeader = "\xc4\x40"

// CommitHash is the hash of a commit in the session's tree: RFC 6962's hash of a leaf, of the commit's leaf data as
// FORMAT.md defines them. data is the stored encoding. A commit and its redacted forms have the same hash.
func CommitHash(data []byte) [DigestBytes]byte { return partsOf(data).leaf(data) }

// Hash is the CommitHash of the entry's stored encoding, or of the encoding of its commit where it has none. For entries of
// [DecodeEntry] the encoding is not read again. Errors: those of [HashOf].
func (e *Entry) Hash() ([DigestBytes]byte, error) {
	switch {
	case len(e.Data) == 0:
		return HashOf(e.Commit)
	case e.parts != nil && e.parts.of == unsafe.SliceData(e.Data) && e.parts.size == len(e.Data):
		return e.parts.leaf(e.Data), nil
	}
	return CommitHash(e.Data), nil
}

// HashOf is the CommitHash of the encoding of c. The encoding is not checked otherwise. Errors: those of [Encode].
func HashOf(c *Commit) ([DigestBytes]byte, error) {
	w := newWriter()
	defer w.release()
	w.commit(c)
	if limit := c.limit(); len(w.b) > limit {
		w.setErr(tooLarge("commit", len(w.b), limit))
	}
	if w.err != nil {
		return [DigestBytes]byte{}, fmt.Errorf("leaf of commit: %w", w.err)
	}
	return CommitHash(w.b), nil
}

// Redact replaces payloads of a stored commit by their digests. The commit keeps its CommitHash. Heads stay. keep
// says which other events stay; the index is that in the commit. Error: [ErrMalformed], also where another program
// wrote the commit in an encoding of its own.
func Redact(data []byte, keep func(index int, kind Kind) bool) ([]byte, error) {
	parts := partsOf(data)
	if parts.loose {
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
	of      *byte // first byte of the encoding
	size    int   // of the encoding
	loose   bool  // the encoding is not the one that writers use: it has no redacted forms
	listed  bool  // there is a pair e
	salted  bool  // there is a pair n
	saltAt  int   // its value
	saltEnd int
	salts   string
	events  []eventPart
	kept    int // number of events with a payload
}

// eventPart is the pair p or h of an event.
type eventPart struct {
	kind     Kind
	at       int // of the key
	value    int // of the value
	end      int // 0: not found
	redacted bool
}

// partsOf finds the parts of a commit that is not decoded. They are loose where the encoding is not the one that
// writers use, so that a commit has exactly one encoding with its leaf data, beside the redacted forms.
func partsOf(data []byte) *commitParts {
	c := newCursor(data)
	p := &commitParts{}
	for n := c.want(typeMap); n > 0 && c.err == nil; n-- {
		at := c.at
		switch tag := c.text(); tag {
		case "n":
			p.readSalts(&c, at)
		case "e":
			p.beginList(&c, at)
			c.parts(p)
		default:
			c.raw()
		}
	}
	p.finish(data, c.end())
	return p
}

func (c *cursor) parts(p *commitParts) {
	n := c.want(typeArray)
	if n > MaxEvents {
		c.fail("%d events", n)
		return
	}
	p.events = make([]eventPart, n)
	for i := range p.events {
		e := &p.events[i]
		for n := c.want(typeMap); n > 0 && c.err == nil; n-- {
			at := c.at
			switch tag := c.text(); tag {
			case "k":
				e.kind = Kind(c.text())
			case "p":
				p.begin(e, c, at)
				c.raw()
				e.end = c.at
			case "h":
				p.begin(e, c, at)
				p.readDigest(e, c)
			default:
				c.raw()
			}
		}
	}
}

// readSalts reads the value of a pair n whose key is at a place.
func (p *commitParts) readSalts(c *cursor, at int) string {
	p.loose = p.loose || p.salted || c.at != at+2
	p.salted, p.saltAt = true, c.at
	p.salts = p.shortBytes(c)
	p.saltEnd = c.at
	return p.salts
}

// shortBytes reads bytes, which must have the shortest header, or nil.
func (p *commitParts) shortBytes(c *cursor) string {
	at := c.at
	n, isNil := c.wantOrNil(typeBytes)
	b := c.bytes(n)
	p.loose = p.loose || !isNil && c.at-at != bytesHeader(len(b))+len(b)
	return b
}

// bytesHeader is the size of the shortest header of n bytes.
func bytesHeader(n int) int {
	switch {
	case n <= math.MaxUint8:
		return 2
	case n <= math.MaxUint16:
		return 3
	}
	return 5
}

// beginList notes the pair e whose key is at a place.
func (p *commitParts) beginList(c *cursor, at int) {
	p.loose = p.loose || p.listed || c.at != at+2
	p.listed = true
}

// begin notes the pair p or h of an event whose key is at a place.
func (p *commitParts) begin(e *eventPart, c *cursor, at int) {
	p.loose = p.loose || e.end != 0 || c.at != at+2
	e.at, e.value = at, c.at
}

// readDigest reads the value of a pair h.
func (p *commitParts) readDigest(e *eventPart, c *cursor) string {
	e.redacted = true
	b := p.shortBytes(c)
	p.loose = p.loose || len(b) != DigestBytes
	e.end = c.at
	return b
}

// finish checks the parts as a whole. err is that of reading them.
func (p *commitParts) finish(data []byte, err error) {
	p.of, p.size = unsafe.SliceData(data), len(data)
	p.kept = 0
	for i := range p.events {
		p.loose = p.loose || p.events[i].end == 0
		if !p.events[i].redacted {
			p.kept++
		}
	}
	p.loose = p.loose || err != nil || !p.listed || !p.saltsFit()
}

// saltsFit reports whether the salts are those of the format: one of the commit where no event is redacted, else one of
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

// leaf is the hash of the leaf data.
func (p *commitParts) leaf(data []byte) [DigestBytes]byte {
	w := newWriter()
	w.b = append(w.b, 0) // of leaves
	if p.loose {
		w.b = append(w.b, data...)
	} else {
		p.write(w, data, nil)
	}
	sum := sha256.Sum256(w.b)
	w.release()
	return sum
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
			salt := p.salt(i)
			salts = append(salts, salt[:]...)
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
		sum := p.digest(w, i, data[e.value:e.end])
		w.b = append(append(w.b, "\xa1h\xc4\x20"...), sum[:]...)
		from = e.end
	}
	w.b = append(w.b, data[from:]...)
}

// digest is the digest that replaces the payload of an event: of its salt and of the payload, without the signature
// of a head. The memory after the end of w is overwritten.
func (p *commitParts) digest(w *writer, i int, payload []byte) [DigestBytes]byte {
	if n := len(payload) - signatureBytes; p.events[i].kind == KindAuditHeadSigned && n > 2 && string(payload[n-2:n]) == signatureHeader {
		payload = payload[:n]
	}
	if !p.salted {
		return sha256.Sum256(payload)
	}
	end := len(w.b)
	salt := p.salt(i)
	w.b = append(append(w.b, salt[:]...), payload...)
	sum := sha256.Sum256(w.b[end:])
	w.b = w.b[:end]
	return sum
}

// salt is the salt of an event with a payload.
func (p *commitParts) salt(i int) [SaltBytes]byte {
	if p.kept == len(p.events) {
		var of [SaltBytes + 2]byte
		copy(of[:], p.salts)
		binary.BigEndian.PutUint16(of[SaltBytes:], uint16(i))
		sum := sha256.Sum256(of[:])
		return [SaltBytes]byte(sum[:])
	}
	at := 0
	for k := range i {
		if !p.events[k].redacted {
			at += SaltBytes
		}
	}
	return [SaltBytes]byte([]byte(p.salts[at : at+SaltBytes]))
}
