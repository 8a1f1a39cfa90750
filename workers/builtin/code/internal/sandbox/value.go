package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	starlarkjson "go.starlark.net/lib/json"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// handle is a started tool. It can be compared, be a key, be saved and be sent.
type handle struct{ id, tool string }

func (h handle) String() string        { return fmt.Sprintf("<task %s of %s>", h.id, h.tool) }
func (h handle) Type() string          { return "handle" }
func (h handle) Freeze()               {}
func (h handle) Truth() starlark.Bool  { return true }
func (h handle) Hash() (uint32, error) { return starlark.String(h.id).Hash() }
func (h handle) AttrNames() []string   { return []string{"id", "tool"} }

func (h handle) CompareSameType(op syntax.Token, y starlark.Value, _ int) (bool, error) {
	return compareSame(op, h == y.(handle), "handle")
}

func (h handle) Attr(name string) (starlark.Value, error) {
	switch name {
	case "id":
		return starlark.String(h.id), nil
	case "tool":
		return starlark.String(h.tool), nil
	}
	return nil, nil
}

// MarshalJSON encodes a handle for saved state and for tools.
func (h handle) MarshalJSON() ([]byte, error) {
	kind := "task"
	return json.Marshal(wireSpecial{Handle: &kind, ID: h.id, Tool: h.tool})
}

// outcome is the result of attempt. Its JSON is an object of its attributes.
type outcome struct {
	ok      bool
	value   starlark.Value
	message string
}

func (o *outcome) String() string {
	if o.ok {
		return "result(ok=True, value=" + o.value.String() + ")"
	}
	return "result(ok=False, error=" + syntax.Quote(o.message, false) + ")"
}
func (o *outcome) Type() string          { return "result" }
func (o *outcome) Freeze()               { o.value.Freeze() }
func (o *outcome) Truth() starlark.Bool  { return starlark.Bool(o.ok) }
func (o *outcome) Hash() (uint32, error) { return 0, errors.New("unhashable type: result") }
func (o *outcome) AttrNames() []string   { return []string{"error", "ok", "value"} }

func (o *outcome) CompareSameType(op syntax.Token, y starlark.Value, depth int) (bool, error) {
	other := y.(*outcome)
	same, err := starlark.EqualDepth(o.value, other.value, depth-1)
	if err != nil {
		return false, err
	}
	return compareSame(op, same && o.ok == other.ok && o.message == other.message, "result")
}

func (o *outcome) Attr(name string) (starlark.Value, error) {
	switch name {
	case "ok":
		return starlark.Bool(o.ok), nil
	case "value":
		return o.value, nil
	case "error":
		return starlark.String(o.message), nil
	}
	return nil, nil
}

func compareSame(op syntax.Token, same bool, kind string) (bool, error) {
	if op != syntax.EQL && op != syntax.NEQ {
		return false, fmt.Errorf("%s %s %s not implemented", kind, op, kind)
	}
	return same == (op == syntax.EQL), nil
}

// pending is a call that gather will make.
type pending struct {
	tool  string
	args  json.RawMessage
	whole bool // with the attachments of its result
}

func (p *pending) String() string        { return "<call of " + p.tool + ">" }
func (p *pending) Type() string          { return "call" }
func (p *pending) Freeze()               {}
func (p *pending) Truth() starlark.Bool  { return true }
func (p *pending) Hash() (uint32, error) { return 0, errors.New("unhashable type: call") }

// toJSON encodes a value for a tool or the turn. Keys of objects are sorted, so that equal values give equal bytes.
func toJSON(v starlark.Value) (json.RawMessage, error) {
	text, err := starlark.Call(new(starlark.Thread), starlarkjson.Module.Members["encode"], starlark.Tuple{v}, nil)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "json.encode: "))
	}
	data := json.RawMessage(text.(starlark.String))
	if len(data) > maxSent {
		return nil, fmt.Errorf("the value takes %d bytes (limit %d)", len(data), maxSent)
	}
	if isDeep(data) {
		return nil, fmt.Errorf("the value nests deeper than %d levels", maxNesting)
	}
	return data, nil
}

// fromJSON is the value of a text: that of its JSON, or else the text.
func fromJSON(data []byte) starlark.Value {
	text := starlark.String(data)
	if isDeep(data) {
		return text
	}
	v, err := starlark.Call(new(starlark.Thread), starlarkjson.Module.Members["decode"], starlark.Tuple{text}, nil)
	if err != nil {
		return text
	}
	return v
}

// isDeep reports whether JSON nests too deeply. It stops at what is no JSON.
func isDeep(data []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(data))
	depth := 0
	for {
		switch token, err := dec.Token(); {
		case err != nil:
			return false
		case token == json.Delim('[') || token == json.Delim('{'):
			depth++
		case token == json.Delim(']') || token == json.Delim('}'):
			depth--
		}
		if depth > maxNesting {
			return true
		}
	}
}

// rendered is a value as print shows it.
func rendered(v starlark.Value) string {
	if s, ok := starlark.AsString(v); ok {
		return s
	}
	return v.String()
}

func cutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "..."
}
