package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// exactKey names, in the metadata of a result, what the server sent as content and structured content, as text: the library decodes numbers
// as float64, and refuses a result of which it cannot read one part. taskKey marks a tool that runs as a task only: the library does not
// have that field. brokenKey marks one that stands for a tool that the library cannot read: it refuses the whole list then.
const (
	exactKey  = "lash/result"
	taskKey   = "lash/task"
	brokenKey = "lash/broken"
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
	ready   []byte            // to be returned
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
			e.ready, _ = exactMessage(e.ready)
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

// begins is how most messages begin.
const begins = `{"jsonrpc"`

// message is the message of a line. Servers print other text beside their messages, also before one in its line: such noise is skipped.
// A message that is broken stays, and ends the server.
func (e *exact) message(line []byte) []byte {
	text := bytes.TrimSpace(line)
	at := bytes.Index(text, []byte(begins))
	switch {
	case len(text) == 0:
		return nil
	case at > 0 && !json.Valid(text) && json.Valid(text[at:]):
		e.noise(string(text[:at]))
		text = text[at:]
	case !bytes.Contains(text, []byte(`"jsonrpc"`)), text[0] != '{' && (text[0] != '[' || !json.Valid(text)):
		e.noise(string(text))
		return nil
	}
	if !json.Valid(text) { // the library would wait for the rest of it
		e.err = errBroken
		return nil
	}
	text, _ = exactMessage(text)
	return append(text, '\n')
}

// eventWith is what can be passed on after another line of a stream of events: its lines with data wait for the end of their event, unless
// they are too long.
func (e *exact) eventWith(line []byte, ended bool) []byte {
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
	if with, changed := exactMessage(dataOf(held)); changed {
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

// exactMessage keeps the content of a call's result as text in its metadata, and marks tools of a list as [markTools] says. A message
// that would be longer than [maxMessage] then stays as it is.
func exactMessage(message []byte) (with []byte, changed bool) {
	called := bytes.Contains(message, []byte(`"content"`)) || bytes.Contains(message, []byte(`"structuredContent"`))
	if !called && !bytes.Contains(message, []byte(`"tools"`)) {
		return message, false
	}
	var m, result map[string]json.RawMessage
	if json.Unmarshal(message, &m) != nil || json.Unmarshal(m["result"], &result) != nil || result == nil {
		return message, false
	}
	switch {
	case result["tools"] != nil:
		changed = markTools(result)
	case result["content"] != nil, result["structuredContent"] != nil:
		changed = keepContent(result)
	}
	if !changed {
		return message, false
	}
	m["result"] = unescaped(result)
	if with = unescaped(m); len(with) >= maxMessage {
		return message, false
	}
	return with, true
}

// keepContent keeps what a result has as content in its metadata.
func keepContent(result map[string]json.RawMessage) bool {
	var meta map[string]json.RawMessage
	if had := result["_meta"]; had != nil && json.Unmarshal(had, &meta) != nil {
		return false // the library refuses it
	}
	if meta == nil {
		meta = make(map[string]json.RawMessage)
	}
	kept := make(map[string]json.RawMessage)
	for _, field := range []string{"content", "structuredContent"} {
		if value := result[field]; value != nil {
			kept[field] = value
			delete(result, field)
		}
	}
	meta[exactKey] = unescaped(string(unescaped(kept)))
	result["_meta"], result["content"] = unescaped(meta), json.RawMessage("[]")
	return true
}

// markTools marks the tools of a list that run as tasks only, and puts others in the place of those that cannot be read.
func markTools(result map[string]json.RawMessage) (changed bool) {
	var tools []json.RawMessage
	if json.Unmarshal(result["tools"], &tools) != nil {
		return false
	}
	for i, raw := range tools {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(raw, &fields); err != nil {
			tools[i], changed = broken("", err), true
			continue
		}
		var name string
		_ = json.Unmarshal(fields["name"], &name)
		var execution struct {
			TaskSupport string `json:"taskSupport"`
		}
		if json.Unmarshal(fields["execution"], &execution) == nil && strings.EqualFold(execution.TaskSupport, "required") {
			fields["_meta"] = json.RawMessage(`{"` + taskKey + `":true}`)
			tools[i], changed = unescaped(fields), true
		}
		if err := json.Unmarshal(tools[i], new(mcp.Tool)); err != nil {
			tools[i], changed = broken(name, err), true
		}
	}
	if changed {
		result["tools"] = unescaped(tools)
	}
	return changed
}

// broken stands for a tool that cannot be read, for the reason of err.
func broken(name string, err error) json.RawMessage {
	return unescaped(map[string]any{"name": name, "inputSchema": map[string]any{"type": "object"}, "_meta": map[string]any{brokenKey: err.Error()}})
}

// unescaped is the JSON of a value of JSON. It leaves <, > and & as they are: escaped, a message could be twelve times as long.
func unescaped(v any) json.RawMessage {
	var out bytes.Buffer
	w := json.NewEncoder(&out)
	w.SetEscapeHTML(false)
	if w.Encode(v) != nil {
		return json.RawMessage("null") // no value of JSON does that
	}
	return bytes.TrimSuffix(out.Bytes(), []byte{'\n'})
}
