package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// answers changes the messages of a server, in one run, into ones that the library reads. It decodes numbers as float64, and refuses all of
// a result of which it cannot read a part: a result that a request wants whole goes by it.
type answers struct {
	mu    sync.Mutex
	wants map[string]want // by the id of the request
}

type want struct {
	into   *json.RawMessage
	forget func() bool // that the end of the request ends it
}

type wholeKey struct{}

// whole is the context of a request whose result is written to into as it was sent, before the request returns.
func whole(ctx context.Context) (_ context.Context, into *json.RawMessage) {
	into = new(json.RawMessage)
	return context.WithValue(ctx, wholeKey{}, into), into
}

// sent notes a request that is sent.
func (a *answers) sent(ctx context.Context, id string) {
	into, ok := ctx.Value(wholeKey{}).(*json.RawMessage)
	if !ok || id == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wants == nil {
		a.wants = make(map[string]want)
	}
	a.wants[id] = want{into, context.AfterFunc(ctx, func() { a.take(id) })}
}

// take ends the wait for a result; nil: none is wanted whole.
func (a *answers) take(id string) *json.RawMessage {
	a.mu.Lock()
	defer a.mu.Unlock()
	w, ok := a.wants[id]
	if ok {
		w.forget()
		delete(a.wants, id)
	}
	return w.into
}

// messages are the messages of a text of the server, which may be a list; none: it has none, or answers to no request alone.
func (a *answers) messages(text []byte) (all [][]byte) {
	var several []json.RawMessage
	if bytes.HasPrefix(text, []byte("[")) && json.Unmarshal(text, &several) == nil {
		for _, one := range several {
			all = append(all, a.messages(one)...)
		}
		return all
	}
	if m := a.message(text); m != nil {
		all = append(all, m)
	}
	return all
}

func (a *answers) message(text []byte) []byte {
	var m map[string]json.RawMessage
	if json.Unmarshal(text, &m) != nil || string(m["jsonrpc"]) != `"2.0"` {
		return nil
	}
	if _, request := m["method"]; request {
		return text
	}
	if id := m["id"]; isNull(id) {
		var refused struct {
			Error struct{ Code int64 }
		}
		if json.Unmarshal(text, &refused) != nil || isNull(m["error"]) || refused.Error.Code == jsonrpc.CodeMethodNotFound {
			return nil // it answers a notification
		}
		return text // of a request that it could not read
	}
	if number, err := strconv.ParseFloat(strings.Trim(string(m["id"]), `"`), 64); err == nil && number == math.Trunc(number) {
		m["id"] = []byte(strconv.FormatInt(int64(number), 10)) // those of the client are whole numbers, and no texts
	}
	switch {
	case !isNull(m["error"]):
		readError(m)
	case m["result"] != nil:
		m["result"] = a.result(string(m["id"]), m["result"])
	}
	return unescaped(m)
}

// result is what the library gets of a result.
func (a *answers) result(id string, result json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	into := a.take(id)
	if json.Unmarshal(result, &fields) != nil || fields == nil {
		if into == nil {
			return result
		}
		result = unescaped(map[string]any{"content": result}) // parts, or a text, without the object that has them
	}
	switch {
	case into != nil:
		*into = result
		kept := map[string]any{"content": []any{}}
		for _, name := range []string{"inputRequests", "requestState", "resultType"} {
			if value, ok := fields[name]; ok {
				kept[name] = value
			}
		}
		if fields["tools"] != nil {
			kept["tools"] = named(fields["tools"])
		}
		return unescaped(kept)
	case fields["protocolVersion"] != nil, fields["serverInfo"] != nil:
		readBegin(fields)
	}
	return unescaped(fields)
}

// readBegin changes the result of initialize into one that the library reads.
func readBegin(result map[string]json.RawMessage) {
	var info, has map[string]json.RawMessage
	if json.Unmarshal(result["serverInfo"], &info) == nil {
		unread[mcp.Implementation](info)
		result["serverInfo"] = unescaped(info)
	}
	if json.Unmarshal(result["capabilities"], &has) == nil {
		for name, value := range has {
			if value[0] == 't' || value[0] == '[' {
				has[name] = json.RawMessage("{}")
			}
		}
		unread[mcp.ServerCapabilities](has)
		result["capabilities"] = unescaped(has)
	}
	const oldest = `"2024-11-05"` // that the library has
	if string(result["protocolVersion"]) < oldest {
		result["protocolVersion"] = json.RawMessage(oldest)
	}
	unread[mcp.InitializeResult](result)
}

// unread leaves out the fields that cannot be read as those of a type: the library would refuse the others with them.
func unread[T any](fields map[string]json.RawMessage) {
	for name, value := range fields {
		if json.Unmarshal(unescaped(map[string]json.RawMessage{name: value}), new(T)) != nil {
			delete(fields, name)
		}
	}
}

// readError changes the error of an answer into one that the library reads, with what it says.
func readError(m map[string]json.RawMessage) {
	var e struct {
		Code    int64
		Message string
	}
	if json.Unmarshal(m["error"], &e) == nil && e.Message != "" {
		return
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(m["error"], &fields) // a text has none
	var code float64
	if json.Unmarshal(fields["code"], &code) != nil || code != math.Trunc(code) || math.Abs(code) > math.MaxInt32 {
		code = jsonrpc.CodeInternalError
	}
	said := cmp.Or(textOf(fields["message"]), textOf(fields["data"]), textOf(m["error"]))
	m["error"] = unescaped(map[string]any{"code": int64(code), "message": said})
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

func isNull(value json.RawMessage) bool { return len(value) == 0 || string(value) == "null" }

var byteOrderMark = []byte("\uFEFF") //nolint:gochecknoglobals // a constant

// mended is a text without the space around it and, where it is no JSON but for numbers that JSON does not have and control characters within
// texts, with null and escapes in their places. Encoders of some languages write both.
func mended(text []byte) []byte {
	text = bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(text), byteOrderMark))
	if json.Valid(text) || !bytes.Contains(text, []byte(`"jsonrpc"`)) {
		return text
	}
	var out []byte
	quoted := false
	for i := 0; i < len(text); i++ {
		c, no := text[i], 0
		if !quoted {
			no = notFinite(text[i:])
		}
		switch {
		case quoted && c == '\\' && i+1 < len(text):
			out = append(out, c, text[i+1])
			i++
		case quoted && c < ' ':
			out = fmt.Appendf(out, `\u%04x`, c)
		case no > 0:
			out = append(out, "null"...)
			i += no - 1
		default:
			quoted = quoted != (c == '"')
			out = append(out, c)
		}
	}
	if !json.Valid(out) {
		return text
	}
	return out
}

// notFinite is the length of the number that JSON does not have at the begin of a text; 0: there is none.
func notFinite(text []byte) int {
	for _, name := range []string{"NaN", "Infinity", "-Infinity"} {
		if bytes.HasPrefix(text, []byte(name)) {
			return len(name)
		}
	}
	return 0
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
