package llm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// maxEvent limits the bytes of one server-sent event.
const maxEvent = 32 << 20

// ServerEvent is one server-sent event.
type ServerEvent struct {
	Name string // empty without a field "event"
	Data []byte // the lines of the fields "data", joined by line feeds; valid until the next event is read
}

// EventReader reads server-sent events. Source: https://html.spec.whatwg.org/multipage/server-sent-events.html. It has no
// use for the fields "id" and "retry": a reply is not resumed. Beside the form of its source it reads a field "error", which is an
// event of that name, and a line of JSON alone.
type EventReader struct {
	in    *bufio.Reader
	begun bool
	cr    bool // the last line ended with CR: a LF that follows is a part of that end
	line  []byte
	data  []byte
}

// NewEventReader returns a reader of the events of a stream.
func NewEventReader(stream io.Reader) *EventReader {
	return &EventReader{in: bufio.NewReader(stream)}
}

// Next returns the next event that has data. An event without the empty line at its end is none. The error is [io.EOF]
// at the end, that of the stream, or an [*Error] of kind malformed for an event of more than 32 MiB.
func (r *EventReader) Next() (ServerEvent, error) {
	e, has := ServerEvent{}, false
	r.data = r.data[:0]
	for {
		line, err := r.next()
		if err != nil {
			return ServerEvent{}, err
		}
		if !has && len(line) > 0 && (line[0] == '{' || line[0] == '[') && json.Valid(line) { // no field: an endpoint that fails forgets the form
			return ServerEvent{Name: e.Name, Data: append(r.data, line...)}, nil
		}
		if len(line) == 0 {
			if has {
				e.Data = r.data[:len(r.data)-1]
				return e, nil
			}
			e = ServerEvent{}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) { // empty: a comment
		case "event":
			e.Name = string(value)
		case "data", "error": // llama.cpp's
			if string(field) == "error" {
				e.Name = "error"
			}
			if len(r.data)+len(value) > maxEvent {
				return ServerEvent{}, tooLarge()
			}
			r.data, has = append(append(r.data, value...), '\n'), true
		}
	}
}

// next returns the next line without its end, which is LF, CR LF or CR. The last line of a stream without an end is
// none.
func (r *EventReader) next() ([]byte, error) {
	r.line = r.line[:0]
	if !r.begun {
		r.begun = true
		if mark, _ := r.in.Peek(3); string(mark) == "\uFEFF" {
			_, _ = r.in.Discard(len(mark))
		}
	}
	for {
		if _, err := r.in.Peek(1); err != nil {
			return nil, err
		}
		chunk, _ := r.in.Peek(r.in.Buffered())
		if r.cr && chunk[0] == '\n' {
			r.cr = false
			_, _ = r.in.Discard(1)
			continue
		}
		r.cr = false
		end := bytes.IndexAny(chunk, "\r\n")
		if end < 0 {
			r.line = append(r.line, chunk...)
			_, _ = r.in.Discard(len(chunk))
			if len(r.line) > maxEvent {
				return nil, tooLarge()
			}
			continue
		}
		r.line, r.cr = append(r.line, chunk[:end]...), chunk[end] == '\r'
		_, _ = r.in.Discard(end + 1)
		return r.line, nil
	}
}

func tooLarge() error {
	return Malformed(fmt.Sprintf("an event of more than %d bytes", maxEvent))
}
