package llm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
)

var errTooLarge = Malformed("an event of more than 32 MiB")

// ServerEvent is one server-sent event.
type ServerEvent struct {
	Name    string  // empty without a field "event"
	Data    []byte  // the lines of the fields "data", joined by line feeds; valid until the next event is read
	Bare    bool    // JSON outside of any field
	Type    string  // for [Wire.Decode]: the member "type", or else the name
	Members Members // for it too: of the data
}

// EventReader reads server-sent events, without the fields "id" and "retry": a reply is not resumed. Source:
// https://html.spec.whatwg.org/multipage/server-sent-events.html. It also reads a field "error", which is an event of that name,
// JSON alone, lines of data that are an event each without an empty line between them, and a last event that is whole without
// one. A page of a web server is an error.
type EventReader struct {
	in    *bufio.Reader
	begun bool // a line that is not blank was read
	cr    bool // the last line ended with CR: a LF that follows is a part of that end
	again bool // the next line is line
	large bool // JSON of several lines was looked for: once, as it may have to be read again
	line  []byte
	data  []byte
}

// NewEventReader returns a reader of the events of a stream.
func NewEventReader(stream io.Reader) *EventReader {
	return &EventReader{in: bufio.NewReader(stream)}
}

// Next returns the next event that has data. The error is [io.EOF] at the end, that of the stream, or an [*Error] of kind
// malformed for an event of more than 32 MiB.
func (r *EventReader) Next() (ServerEvent, error) {
	e, lines := ServerEvent{}, 0
	r.data = r.data[:0]
	for {
		line, err := r.next()
		if lines > 0 && (err == nil && len(line) == 0 || err == io.EOF && wholeData(r.data)) { //nolint:errorlint // the stream's own
			e.Data = r.data[:len(r.data)-1]
			return e, nil
		}
		if !r.begun {
			line = bytes.TrimPrefix(line, []byte("\uFEFF"))
		}
		text := bytes.TrimSpace(line)
		switch {
		case err != nil:
			return ServerEvent{}, err
		case len(line) == 0:
			e = ServerEvent{}
			continue
		case !r.begun && bytes.HasPrefix(text, []byte("<")):
			return ServerEvent{}, &Error{Kind: KindMalformed, Message: "the endpoint answered with a web page"}
		}
		r.begun = r.begun || len(text) > 0
		if lines == 0 && (line[0] == '{' || line[0] == '[') { // no field: an endpoint that fails forgets the form
			if document := r.document(line); document != nil {
				return ServerEvent{Name: e.Name, Data: document, Bare: true}, nil
			}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(bytes.TrimPrefix(value, []byte(" ")), []byte("data:")) // the second is of a gateway that names the field twice
		switch string(field) {                                                          // empty: a comment
		case "event":
			e.Name = string(value)
		case "data", "error": // llama.cpp's
			if string(field) == "error" {
				e.Name = "error"
			}
			if len(r.data)+len(value) > maxEvent {
				return ServerEvent{}, errTooLarge
			}
			if lines == 1 && wholeData(r.data) {
				e.Data, r.again = r.data[:len(r.data)-1], true
				return e, nil
			}
			r.data = append(append(r.data, value...), '\n')
			lines++
		}
	}
}

// wholeData reports whether data is an event without a line that says so.
func wholeData(data []byte) bool { return json.Valid(data) || bytes.HasPrefix(data, []byte("[DONE]")) }

// document is the JSON that begins with a line, or nil: what follows the line is read again then.
func (r *EventReader) document(line []byte) []byte {
	switch {
	case json.Valid(line):
		return bytes.Clone(line)
	case r.large:
		return nil
	}
	r.large = true
	var value json.RawMessage
	var read bytes.Buffer
	d := json.NewDecoder(io.MultiReader(bytes.NewReader(append(bytes.Clone(line), '\n')), io.TeeReader(io.LimitReader(r.in, maxEvent), &read)))
	if d.Decode(&value) != nil {
		r.in = bufio.NewReader(io.MultiReader(&read, r.in))
		return nil
	}
	r.in = bufio.NewReader(io.MultiReader(d.Buffered(), r.in))
	return value
}

// next returns the next line without its end, which is LF, CR LF or CR, or that of the stream.
func (r *EventReader) next() ([]byte, error) {
	if r.again {
		r.again = false
		return r.line, nil
	}
	for r.line = r.line[:0]; len(r.line) <= maxEvent; {
		c, err := r.in.ReadByte()
		after := r.cr
		r.cr = c == '\r'
		switch {
		case err == io.EOF && len(r.line) > 0:
			return r.line, nil
		case err != nil:
			return nil, err
		case c == '\n' && after: // of CR LF
		case c == '\n', c == '\r':
			return r.line, nil
		default:
			r.line = append(r.line, c)
		}
	}
	return nil, errTooLarge
}
