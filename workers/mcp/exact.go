package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
)

// exactKey names, in the metadata of a result, the text of its structured part. The library decodes numbers of that part as float64,
// which has 53 bits for digits. A text that is not the same value, which a server may set itself, does not count.
const exactKey = "lash/structured"

// exact reads messages, one a line, and adds the text of a structured result to its metadata where numbers may lose digits. All else is
// as it was read.
type exact struct {
	io.Closer
	from  *bufio.Reader
	whole bool   // what is read is one message
	ready []byte // to be returned
	rest  bool   // the next bytes continue a line that is longer than maxMessage
	err   error  // after ready
}

// exactOf reads messages of r: one a line, or one in all.
func exactOf(r io.ReadCloser, whole bool) *exact {
	return &exact{Closer: r, from: bufio.NewReaderSize(r, 32<<10), whole: whole}
}

// Read implements [io.Reader].
func (e *exact) Read(data []byte) (n int, err error) {
	for n < len(data) {
		if len(e.ready) == 0 {
			if e.err != nil || n > 0 && !e.hasLine() {
				break
			}
			e.fill()
		}
		copied := copy(data[n:], e.ready)
		n, e.ready = n+copied, e.ready[copied:]
	}
	if n == 0 && len(data) > 0 {
		return 0, e.err
	}
	return n, nil
}

// hasLine reports whether a line can be read without a wait.
func (e *exact) hasLine() bool {
	buffered, _ := e.from.Peek(e.from.Buffered()) // there are so many
	return bytes.IndexByte(buffered, '\n') >= 0
}

// fill reads the next message.
func (e *exact) fill() {
	if e.whole {
		e.ready, e.err = io.ReadAll(e.from) // a reader below bounds it
		if e.err == nil {
			e.ready, _ = exactMessage(e.ready)
			e.err = io.EOF
		}
		return
	}
	var line []byte
	for {
		part, err := e.from.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			if line = append(line, part...); e.rest || len(line) > maxMessage {
				e.ready, e.rest = line, true
				return
			}
			continue
		}
		line = append(line, part...)
		if e.ready, e.err = line, err; !e.rest {
			e.ready = exactLine(line)
		}
		e.rest = false
		return
	}
}

// floatDigits is how many digits float64 has exactly.
const floatDigits = 15

// hasLongNumber reports whether a number may have more digits than float64. Some texts look like one.
func hasLongNumber(data []byte) bool {
	digits := 0
	for _, c := range data {
		switch {
		case '0' <= c && c <= '9':
			if digits++; digits > floatDigits {
				return true
			}
		case c != '.':
			digits = 0
		}
	}
	return false
}

// exactLine is a line with one message, or of a stream of events.
func exactLine(line []byte) []byte {
	message, event := bytes.CutPrefix(line, []byte("data:"))
	with, changed := exactMessage(message)
	switch {
	case !changed:
		return line
	case event:
		with = slices.Concat([]byte("data: "), with)
	}
	return append(with, '\n')
}

// exactText is the JSON of a value with the digits of a text; empty where the text is not that value. data is the value as [json.Marshal]
// writes it.
func exactText(text string, data []byte) string {
	var v any
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return ""
	}
	exact, err := json.Marshal(v) // each field once
	if err != nil || json.Unmarshal(exact, &v) != nil {
		return ""
	}
	if same, err := json.Marshal(v); err != nil || !bytes.Equal(same, data) {
		return ""
	}
	return string(exact)
}

// exactMessage adds the text of a structured result to its metadata, if it has long numbers. A message that would be longer than
// [maxMessage] with it stays as it is.
func exactMessage(message []byte) (with []byte, changed bool) {
	if !bytes.Contains(message, []byte(`"structuredContent"`)) || !hasLongNumber(message) {
		return message, false
	}
	var m, result, meta map[string]json.RawMessage
	if json.Unmarshal(message, &m) != nil || json.Unmarshal(m["result"], &result) != nil || !hasLongNumber(result["structuredContent"]) {
		return message, false
	}
	if had := result["_meta"]; had != nil && json.Unmarshal(had, &meta) != nil {
		return message, false // the library refuses it
	}
	structured := result["structuredContent"]
	if len(message)+len(structured)+bytes.Count(structured, []byte{'"'})+bytes.Count(structured, []byte{'\\'}) > maxMessage {
		return message, false
	}
	var text bytes.Buffer
	if json.Compact(&text, structured) != nil {
		return message, false
	}
	if meta == nil {
		meta = make(map[string]json.RawMessage)
	}
	var errs [4]error
	meta[exactKey], errs[0] = unescaped(text.String())
	result["_meta"], errs[1] = unescaped(meta)
	m["result"], errs[2] = unescaped(result)
	with, errs[3] = unescaped(m)
	if errors.Join(errs[:]...) != nil || len(with) >= maxMessage {
		return message, false
	}
	return with, true
}

// unescaped is the JSON of a value. It leaves <, > and & as they are: escaped, a message could be twelve times as long.
func unescaped(v any) ([]byte, error) {
	var out bytes.Buffer
	w := json.NewEncoder(&out)
	w.SetEscapeHTML(false)
	err := w.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte{'\n'}), err
}
