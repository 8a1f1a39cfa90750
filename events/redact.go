package events

import (
	"bytes"
	"fmt"
)

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
	if !redacted {
		return bytes.Clone(data), nil
	}
	w := newWriter()
	defer w.release()
	parts.write(w, data, stays)
	return bytes.Clone(w.b), nil
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
	w.bytes(salts)
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
