package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
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

// mended is a message that is no JSON as JSON, where it is that but for numbers that JSON does not have, which become null, and control
// characters within texts. Encoders of some languages write both.
func mended(message []byte) []byte {
	if json.Valid(message) || !bytes.Contains(message, []byte(`"jsonrpc"`)) {
		return message
	}
	var out []byte
	quoted := false
	for i := 0; i < len(message); i++ {
		c, rest := message[i], message[i:]
		no := 0
		if !quoted {
			no = notFinite(rest)
		}
		switch {
		case c == '"':
			quoted = !quoted
			out = append(out, c)
		case quoted && c == '\\' && len(rest) > 1:
			out = append(out, rest[:2]...)
			i++
		case quoted && c < ' ':
			out = fmt.Appendf(out, `\u%04x`, c)
		case no > 0:
			out = append(out, "null"...)
			i += no - 1
		default:
			out = append(out, c)
		}
	}
	if !json.Valid(out) {
		return message
	}
	return out
}

// notFinite is the length of the number that JSON does not have at the begin of a text; 0: there is none.
func notFinite(text []byte) int {
	for _, name := range []string{"NaN", "Infinity", "-Infinity"} {
		if text[0] == name[0] && bytes.HasPrefix(text, []byte(name)) {
			return len(name)
		}
	}
	return 0
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
		if next := result["nextCursor"]; !isNull(next) && next[0] != '"' { // the library has texts alone
			result["nextCursor"], changed = unescaped(string(next)), true
		}
		return markTools(result) || changed
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
