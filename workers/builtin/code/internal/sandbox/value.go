package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

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

func (h handle) AttrNames() []string { return []string{"id", "tool"} }

// wireHandle is a handle in JSON, in saved state and in arguments.
type wireHandle struct {
	Kind string `json:"__handle__"`
	ID   string `json:"id"`
	Tool string `json:"tool"`
}

func (h handle) MarshalJSON() ([]byte, error) {
	return json.Marshal(wireHandle{Kind: "task", ID: h.id, Tool: h.tool})
}

// outcome is the result of attempt.
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

func (o *outcome) CompareSameType(op syntax.Token, y starlark.Value, depth int) (bool, error) {
	other := y.(*outcome)
	same := o.ok == other.ok && o.message == other.message
	if same {
		var err error
		if same, err = starlark.EqualDepth(o.value, other.value, depth-1); err != nil {
			return false, err
		}
	}
	return compareSame(op, same, "result")
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

func (o *outcome) AttrNames() []string { return []string{"error", "ok", "value"} }

func compareSame(op syntax.Token, same bool, kind string) (bool, error) {
	switch op {
	case syntax.EQL:
		return same, nil
	case syntax.NEQ:
		return !same, nil
	default:
		return false, fmt.Errorf("%s %s %s not implemented", kind, op, kind)
	}
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
// weigh has limited its
// size.
func (m *meter) toJSON(v starlark.Value) (json.RawMessage, error) {
	w, err := m.weigh(v)
	if err != nil {
		return nil, err
	}
	if err := m.alloc(times(w.bytes, 2)); err != nil {
		return nil, err
	}
	return appendJSON(nil, v)
}

func appendJSON(b []byte, v starlark.Value) ([]byte, error) {
	var err error
	list := func(seq starlark.Iterable) ([]byte, error) {
		b = append(b, '[')
		for i, elem := range slices.Collect(starlark.Elements(seq)) {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendJSON(b, elem); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	}
	switch v := v.(type) {
	case starlark.NoneType:
		return append(b, "null"...), nil
	case starlark.Bool:
		return strconv.AppendBool(b, bool(v)), nil
	case starlark.Int:
		return append(b, v.String()...), nil
	case starlark.Float:
		if math.IsInf(float64(v), 0) || math.IsNaN(float64(v)) {
			return nil, fmt.Errorf("%s is not a number in JSON", v)
		}
		return append(b, v.String()...), nil
	case starlark.String:
		return appendText(b, string(v))
	case handle:
		text, err := v.MarshalJSON()
		return append(b, text...), err
	case *starlark.List:
		return list(v)
	case starlark.Tuple:
		return list(v)
	case *starlark.Set:
		return nil, errors.New("a set has no JSON; use sorted(..) or list(..)")
	case starlark.Bytes:
		return nil, errors.New("bytes have no JSON; use str(..)")
	case *starlark.Dict:
		items := v.Items()
		for _, item := range items {
			if _, ok := item[0].(starlark.String); !ok {
				return nil, fmt.Errorf("a dict with a key of type %s has no JSON; use strings as keys", item[0].Type())
			}
		}
		slices.SortFunc(items, func(x, y starlark.Tuple) int {
			return strings.Compare(string(x[0].(starlark.String)), string(y[0].(starlark.String)))
		})
		b = append(b, '{')
		for i, item := range items {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendText(b, string(item[0].(starlark.String))); err != nil {
				return nil, err
			}
			b = append(b, ':')
			if b, err = appendJSON(b, item[1]); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	case *outcome:
		b = append(strconv.AppendBool(append(b, `{"ok":`...), v.ok), `,"value":`...)
		if b, err = appendJSON(b, v.value); err != nil {
			return nil, err
		}
		if b, err = appendText(append(b, `,"error":`...), v.message); err != nil {
			return nil, err
		}
		return append(b, '}'), nil
	}
	return nil, fmt.Errorf("a %s has no JSON", v.Type())
}

// appendText writes a JSON string and replaces invalid UTF-8 with U+FFFD.
func appendText(b []byte, s string) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(strings.ToValidUTF8(s, "\uFFFD")); err != nil {
		return nil, err
	}
	return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...), nil
}

// result decodes the answer of a tool: as JSON, or else as text.
func (m *meter) result(data json.RawMessage) (starlark.Value, error) {
	text := string(data)
	depth, nodes := jsonShape(text)
	if err := m.spend(nodes); err != nil {
		return nil, err
	}
	if err := m.alloc(plus(int64(len(text)), times(nodes, 100))); err != nil {
		return nil, err
	}
	if err := m.table(jsonKeys(text)); err != nil {
		return nil, err
	}
	if depth <= maxNesting && longestNumber(text) <= maxIntDigits && json.Valid(data) {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		if v, err := decodeJSON(dec); err == nil {
			return v, nil
		}
	}
	return starlark.String(text), nil
}

func decodeJSON(dec *json.Decoder) (starlark.Value, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch tok := tok.(type) {
	case nil:
		return starlark.None, nil
	case bool:
		return starlark.Bool(tok), nil
	case string:
		return starlark.String(tok), nil
	case json.Number:
		return number(tok.String())
	case json.Delim:
		if tok == '[' {
			var elems []starlark.Value
			for dec.More() {
				v, err := decodeJSON(dec)
				if err != nil {
					return nil, err
				}
				elems = append(elems, v)
			}
			_, err := dec.Token()
			return starlark.NewList(elems), err
		}
		dict := new(starlark.Dict)
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			v, err := decodeJSON(dec)
			if err != nil {
				return nil, err
			}
			name, _ := key.(string)
			if err := dict.SetKey(starlark.String(name), v); err != nil {
				return nil, err
			}
		}
		_, err := dec.Token()
		return dict, err
	}
	return nil, fmt.Errorf("unknown token %v", tok)
}

func number(s string) (starlark.Value, error) {
	if !strings.ContainsAny(s, ".eE") {
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return starlark.MakeInt64(i), nil
		}
		if i, ok := new(big.Int).SetString(s, 10); ok && len(s) <= maxIntDigits {
			return starlark.MakeBigInt(i), nil
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	return starlark.Float(f), err
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
