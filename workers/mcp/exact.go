package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
)

// exactKey names, in the metadata of a result, the text of its structured part. The library decodes numbers of that part as float64,
// which has 53 bits for digits. A server that sets the key itself says what its own result is.
const exactKey = "lash/structured"

// exact reads messages, one a line, and adds the text of a structured result to its metadata where numbers may lose digits. All else is
// as it was read.
type exact struct {
	io.Closer
	from  *bufio.Reader
	whole bool   // what is read is one message
	ready []byte // to be returned
	rest  bool   // of a line that is too long for a message
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

// manyDigits is a number that float64 may not have exactly. Texts match it as well.
var manyDigits = regexp.MustCompile(`[0-9]{16}`)

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

// exactMessage adds the text of a structured result to its metadata, if it has long numbers.
func exactMessage(message []byte) (with []byte, changed bool) {
	if !bytes.Contains(message, []byte(`"structuredContent"`)) || !manyDigits.Match(message) {
		return message, false
	}
	var m, result, meta map[string]json.RawMessage
	if json.Unmarshal(message, &m) != nil || json.Unmarshal(m["result"], &result) != nil || !manyDigits.Match(result["structuredContent"]) {
		return message, false
	}
	if had := result["_meta"]; had != nil && json.Unmarshal(had, &meta) != nil {
		return message, false // the library refuses it
	}
	var text bytes.Buffer
	if json.Compact(&text, result["structuredContent"]) != nil {
		return message, false
	}
	if meta == nil {
		meta = make(map[string]json.RawMessage)
	}
	var errs [3]error
	meta[exactKey], errs[0] = json.Marshal(text.String())
	result["_meta"], errs[1] = json.Marshal(meta)
	m["result"], errs[2] = json.Marshal(result)
	with, err := json.Marshal(m)
	return with, errors.Join(err, errs[0], errs[1], errs[2]) == nil
}
