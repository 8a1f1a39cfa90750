package process

import (
	"bytes"
	"io"
	"path/filepath"
	"slices"
)

// leastHidden is the length of the shortest value that is hidden: shorter ones stand for themselves in any text.
const leastHidden = 6

// hider replaces the values of variables, and a directory, in what a command prints.
type hider struct {
	texts []hiddenText // the longest first
	heads [256]bool    // first bytes of texts
}

type hiddenText struct {
	text, shown string
	isPath      bool // replaced where it is no part of a longer name
}

// newHider is nil where a command has nothing to hide.
func newHider(c *Command) *hider {
	h := new(hider)
	for name, value := range c.In.Variables {
		if len(value) >= leastHidden {
			h.texts = append(h.texts, hiddenText{value, "[" + name + "]", false})
		}
	}
	if base, err := filepath.Abs(c.In.Dir); c.In.Dir != "" && err == nil && base != "/" {
		h.texts = append(h.texts, hiddenText{base, ".", true})
		if real, err := filepath.EvalSymlinks(base); err == nil && real != base && real != "/" {
			h.texts = append(h.texts, hiddenText{real, ".", true})
		}
	}
	if len(h.texts) == 0 {
		return nil
	}
	slices.SortFunc(h.texts, func(a, b hiddenText) int { return len(b.text) - len(a.text) })
	for _, t := range h.texts {
		h.heads[t.text[0]] = true
	}
	return h
}

// replace appends data to out with its texts replaced. before is the byte before data. Where data may go on, the rest that may
// begin a text is not appended: rest is its length.
func (h *hider) replace(out, data []byte, before byte, goesOn bool) (_ []byte, rest int) {
	for i := 0; i < len(data); {
		found, waits := h.at(data[i:], before, goesOn)
		switch {
		case waits:
			return out, len(data) - i
		case found != nil:
			out = append(out, found.shown...)
			i += len(found.text)
		default:
			out = append(out, data[i])
			i++
		}
		before = data[i-1]
	}
	return out, 0
}

// at is the text with which data begins; waits where only more data can say that.
func (h *hider) at(data []byte, before byte, goesOn bool) (found *hiddenText, waits bool) {
	if !h.heads[data[0]] {
		return nil, false
	}
	for i := range h.texts {
		t := &h.texts[i]
		if t.isPath && isNameByte(before) {
			continue
		}
		n := min(len(data), len(t.text))
		if t.text[:n] != string(data[:n]) {
			continue
		}
		switch {
		case len(data) > len(t.text):
			if !t.isPath || !isNameByte(data[n]) {
				return t, false
			}
		case goesOn && (t.isPath || n < len(t.text)):
			return nil, true
		case n == len(t.text):
			return t, false
		}
	}
	return nil, false
}

// isNameByte reports whether a byte goes on with the name of a file. A point also ends sentences.
func isNameByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '_' || b == '-' || b >= 0x80
}

// reading hides what a reader of output must not have.
func (h *hider) reading(read func(io.Reader)) func(io.Reader) {
	if h == nil || read == nil {
		return read
	}
	return func(r io.Reader) { read(&hidingReader{from: r, hider: h}) }
}

// error hides what the text of an error must not have.
func (h *hider) error(err error) error {
	if h == nil || err == nil {
		return err
	}
	text, _ := h.replace(nil, []byte(err.Error()), 0, false)
	return &hidingError{err, string(text)}
}

type hidingError struct {
	error

	text string
}

func (e *hidingError) Error() string { return e.text }
func (e *hidingError) Unwrap() error { return e.error }

// hidingReader is a reader with texts replaced, wherever the reads of it part them.
type hidingReader struct {
	*hider

	from   io.Reader
	chunk  [16 << 10]byte
	kept   []byte // read, and not yet replaced
	ready  bytes.Buffer
	before byte
	err    error
}

func (r *hidingReader) Read(p []byte) (int, error) {
	for r.ready.Len() == 0 {
		if r.err != nil {
			return 0, r.err
		}
		n, err := r.from.Read(r.chunk[:])
		r.kept, r.err = append(r.kept, r.chunk[:n]...), err
		out, rest := r.replace(r.ready.AvailableBuffer(), r.kept, r.before, err == nil)
		r.ready.Write(out)
		if done := len(r.kept) - rest; done > 0 {
			r.before = r.kept[done-1]
			r.kept = append(r.kept[:0], r.kept[done:]...)
		}
	}
	return r.ready.Read(p)
}
