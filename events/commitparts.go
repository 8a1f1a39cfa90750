package events

import (
	"math"
	"unsafe"
)

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

// partsOf finds the parts of a commit that is not decoded. Decoding finds them too, and refuses what it does not
// accept; partsOf reads any bytes, because every stored commit has a hash. The parts are loose where the encoding is not the one that
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
