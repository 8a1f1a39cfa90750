package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

var (
	errMore   = errors.New("something follows the value")
	errBroken = errors.New("a message is no JSON")
)

// framing is how a stream separates messages.
type framing int

const (
	inLines  framing = iota // one a line
	inEvents                // one in the lines with data of a server-sent event
	inOne                   // one in all
)

// exact reads messages, and changes them as [exactMessage] says.
type exact struct {
	io.Closer
	from    *bufio.Reader
	framing framing
	noise   func(line string) // receives lines that are no messages, of inLines
	busy    func() bool       // whether a call runs, of inLines; nil: none
	ready   []byte            // to be returned
	address bool              // the next event names the URL of requests, of inEvents
	started bool              // a line was read, of inEvents
	event   []byte            // lines with data of the event that is being read
	rest    bool              // the next bytes continue a line, or an event, that is longer than maxMessage
	err     error             // after ready
}

func exactOf(r io.ReadCloser, by framing) *exact {
	return &exact{Closer: r, from: bufio.NewReaderSize(r, 32<<10), framing: by}
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
	if e.framing == inOne {
		e.ready, e.err = io.ReadAll(e.from) // a reader below bounds it
		if e.err == nil {
			if with := exactMessage(mended(e.ready)); with != nil {
				e.ready = with
			}
			e.err = io.EOF
		}
		return
	}
	line, ended := e.line()
	switch {
	case e.framing == inEvents:
		e.ready = e.eventWith(line, ended)
		return
	case e.rest || !ended:
		e.ready = line
	default:
		e.ready = e.message(line)
	}
	e.rest = !ended
}

// line reads a line with its end. ended is false for a part of one that is longer than maxMessage.
func (e *exact) line() (line []byte, ended bool) {
	for {
		part, err := e.from.ReadSlice('\n')
		if line = append(line, part...); !errors.Is(err, bufio.ErrBufferFull) {
			e.err = err
			return line, true
		}
		if e.rest || len(line) > maxMessage {
			return line, false
		}
	}
}

// maxTries limits the places in a line at which a message is looked for.
const maxTries = 16

// message are the messages of a line. Servers print other text beside their messages, also in the same line, and objects that are none:
// such noise is skipped. A line of a message that is broken stays, and ends the server.
func (e *exact) message(line []byte) (all []byte) {
	text := mended(bytes.TrimSpace(bytes.TrimPrefix(line, byteOrderMark)))
	var noise []byte
	rest := text
	for tries := 0; tries < maxTries && bytes.Contains(rest, []byte(`"jsonrpc"`)); tries++ {
		at := bytes.IndexAny(rest, "{[")
		if at < 0 {
			break
		}
		var value json.RawMessage
		end := at + 1
		if d := json.NewDecoder(bytes.NewReader(rest[at:])); d.Decode(&value) == nil {
			end = at + int(d.InputOffset())
		}
		skip := end
		switch with := exactMessage(value); {
		case with != nil:
			all = append(append(all, with...), '\n')
			skip = at
		case e.busy != nil && e.busy() && isAnswer(value): // it may be that of the call
			e.err = errBroken
			return nil
		}
		noise, rest = append(noise, rest[:skip]...), rest[end:]
	}
	noise = bytes.TrimSpace(append(noise, rest...))
	switch {
	case len(noise) == 0:
	case len(all) == 0 && noise[0] == '{' && bytes.Contains(noise, []byte(`"jsonrpc"`)) && !json.Valid(noise):
		e.err = errBroken // the library would wait for the rest of it
	default:
		e.noise(string(noise))
	}
	return all
}

var byteOrderMark = []byte("\uFEFF") //nolint:gochecknoglobals // a constant

// eventWith is what can be passed on after another line of a stream of events: its lines with data wait for the end of their event, unless
// they are too long.
func (e *exact) eventWith(line []byte, ended bool) []byte {
	if !e.started {
		e.started, line = true, bytes.TrimPrefix(line, byteOrderMark)
	}
	text := bytes.TrimRight(line, "\r\n")
	over := ended && len(text) == 0 || e.err != nil
	switch {
	case e.rest:
		e.rest = !over
		return line
	case !ended, len(e.event)+len(line) > maxMessage:
		e.rest = true
		line, e.event = append(e.event, line...), nil
		return line
	case bytes.HasPrefix(text, []byte("data:")):
		e.event = append(e.event, line...)
		line = nil
	}
	if !over || len(e.event) == 0 {
		return line
	}
	held := e.event
	e.event = nil
	sent := bytes.TrimSpace(dataOf(held))
	data := mended(sent)
	switch with := exactMessage(data); {
	case len(data) == 0: // it has an id alone
	case e.address:
		e.address = false
	case with == nil && json.Valid(data), with == nil && !bytes.HasPrefix(data, []byte("{")):
		held = nil // it is no message
	case with != nil && !bytes.Equal(with, sent):
		held = append(append([]byte("data: "), with...), '\n')
	}
	return append(held, line...)
}

// dataOf joins the data of an event's lines.
func dataOf(event []byte) []byte {
	var data [][]byte
	for line := range bytes.Lines(event) {
		data = append(data, bytes.TrimPrefix(bytes.TrimRight(line, "\r\n"), []byte("data:")))
	}
	return bytes.Join(data, []byte("\n"))
}
