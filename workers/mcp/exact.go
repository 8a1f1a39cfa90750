package mcp

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
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
	busy    func() bool       // whether a call runs, of inLines; nil: none
	ready   []byte            // to be returned
	address bool              // the next event has the address of requests, of inEvents
	begun   bool              // a line was read, of inEvents
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
			if with := exactMessage(e.ready); with != nil {
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
	text := bytes.TrimSpace(bytes.TrimPrefix(line, byteOrderMark))
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
	if !e.begun {
		e.begun, line = true, bytes.TrimPrefix(line, byteOrderMark)
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
	data := bytes.TrimSpace(dataOf(held))
	switch with := exactMessage(data); {
	case len(data) == 0: // it has an id alone
	case e.address:
		e.address = false
	case with == nil && json.Valid(data), with == nil && !bytes.HasPrefix(data, []byte("{")):
		held = nil // it is no message
	case with != nil && !bytes.Equal(with, data):
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

// exactMessage is a message of a server in the form that the library reads; nil: it is none, or an answer to no request. The content of a
// call's result is kept as text in its metadata, tools of a list are marked as [markTools] says, and what the library could not read of
// anything that is not used is left out. A message that would be longer than [maxMessage] then stays as it is.
func exactMessage(message []byte) (with []byte) {
	message = bytes.TrimPrefix(message, byteOrderMark)
	var several []json.RawMessage
	if json.Unmarshal(message, &several) == nil && len(several) == 1 {
		message = several[0]
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(message, &m) != nil {
		if len(several) > 1 && bytes.Contains(message, []byte(`"jsonrpc"`)) {
			return message
		}
		return nil
	}
	_, request := m["method"]
	switch id := m["id"]; {
	case string(m["jsonrpc"]) != `"2.0"`:
		return nil
	case request:
		return message
	case isNull(id):
		var refused struct {
			Error struct{ Code int64 }
		}
		if json.Unmarshal(message, &refused) != nil || isNull(m["error"]) || refused.Error.Code == jsonrpc.CodeMethodNotFound {
			return nil // it answers a notification
		}
		return message // of a request that it could not read
	}
	changed := false
	if number, err := strconv.ParseInt(strings.Trim(string(m["id"]), `"`), 10, 64); err == nil && m["id"][0] == '"' {
		m["id"], changed = []byte(strconv.FormatInt(number, 10)), true // the client's are numbers
	}
	var result map[string]json.RawMessage
	switch {
	case !isNull(m["error"]):
		changed = readError(m) || changed
	case json.Unmarshal(m["result"], &result) == nil && readResult(result):
		m["result"], changed = unescaped(result), true
	}
	if changed {
		if with = unescaped(m); len(with) < maxMessage {
			return with
		}
	}
	return message
}

// isAnswer reports whether an object that is no message is an answer all the same, to a request that it does not name.
func isAnswer(value json.RawMessage) bool {
	var m map[string]json.RawMessage
	return json.Unmarshal(value, &m) == nil && m["jsonrpc"] != nil && m["result"] != nil
}

func isNull(value json.RawMessage) bool { return len(value) == 0 || string(value) == "null" }

// readResult changes a result into one that the library reads.
func readResult(result map[string]json.RawMessage) (changed bool) {
	switch {
	case result["tools"] != nil:
		return markTools(result)
	case result["content"] != nil, result["structuredContent"] != nil, result["toolResult"] != nil:
		return keepContent(result)
	case result["protocolVersion"] == nil:
		return false
	}
	var info, has map[string]json.RawMessage
	if json.Unmarshal(result["serverInfo"], &info) == nil && unread[mcp.Implementation](info) {
		result["serverInfo"], changed = unescaped(info), true
	}
	if json.Unmarshal(result["capabilities"], &has) == nil {
		for name, value := range has {
			if kind := value[0]; kind == 't' || kind == '[' {
				has[name], changed = json.RawMessage("{}"), true
			}
		}
		changed = unread[mcp.ServerCapabilities](has) || changed
		result["capabilities"] = unescaped(has)
	}
	if string(result["protocolVersion"]) == `"2024-10-07"` { // the library has no older one than that of 2024-11-05
		result["protocolVersion"], changed = json.RawMessage(`"2024-11-05"`), true
	}
	return unread[mcp.InitializeResult](result) || changed
}

// unread leaves out the fields that cannot be read as those of a type: the library would refuse the others with them.
func unread[T any](fields map[string]json.RawMessage) (changed bool) {
	for name, value := range fields {
		if json.Unmarshal(unescaped(map[string]json.RawMessage{name: value}), new(T)) != nil {
			delete(fields, name)
			changed = true
		}
	}
	return changed
}

// readError changes the error of an answer into one that the library reads, with what it says.
func readError(m map[string]json.RawMessage) (changed bool) {
	var e struct {
		Code    int64
		Message string
	}
	if json.Unmarshal(m["error"], &e) == nil && e.Message != "" {
		return false
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(m["error"], &fields) // a text has none
	var code float64
	if json.Unmarshal(fields["code"], &code) != nil || code != math.Trunc(code) || math.Abs(code) > math.MaxInt32 {
		code = jsonrpc.CodeInternalError
	}
	said := cmp.Or(textOf(fields["message"]), textOf(fields["data"]), textOf(m["error"]))
	m["error"] = unescaped(map[string]any{"code": int64(code), "message": said})
	return true
}

// textOf is a text, the message of an object, or JSON; empty: it is null.
func textOf(value json.RawMessage) string {
	var text string
	var in struct {
		Message string `json:"message"`
	}
	if isNull(value) || json.Unmarshal(value, &text) == nil {
		return text
	}
	_ = json.Unmarshal(value, &in) // other values have none
	return cmp.Or(in.Message, string(value))
}

// keepContent keeps what a result has as content in its metadata.
func keepContent(result map[string]json.RawMessage) bool {
	var meta map[string]json.RawMessage
	if json.Unmarshal(result["_meta"], &meta) != nil || meta == nil {
		meta = make(map[string]json.RawMessage)
	}
	kept := make(map[string]json.RawMessage)
	if result["content"] == nil && result["toolResult"] != nil { // of the version 2024-10-07
		result["content"] = result["toolResult"]
	}
	for _, field := range []string{"content", "structuredContent"} {
		if value := result[field]; value != nil {
			kept[field] = value
			delete(result, field)
		}
	}
	meta[exactKey] = unescaped(string(unescaped(kept)))
	unread[struct {
		IsError bool `json:"isError"`
	}](result)
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
		named := fields["name"]
		if unread[mcp.Tool](fields) {
			tools[i], changed = unescaped(fields), true
			if fields["name"] == nil {
				tools[i] = broken("", fmt.Errorf("its name is %.40s", named))
			}
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
