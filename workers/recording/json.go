package recording

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// object is a JSON object. What a line is depends on its keys as they are; for a struct encoding/json ignores their case.
type object map[string]json.RawMessage

// parseLine returns the object in line, and its JSON. A list is one of items.
func parseLine(line []byte) ([]byte, object, error) {
	if !utf8.Valid(line) {
		return nil, nil, errors.New("invalid UTF-8")
	}
	if kindOf(line) == '[' && json.Valid(line) {
		line = slices.Concat([]byte(`{"data":`), line, []byte("}"))
	}
	var o object
	// A decoder distinguishes an early end; Unmarshal does not.
	if err := json.NewDecoder(bytes.NewReader(line)).Decode(&o); errors.Is(err, io.ErrUnexpectedEOF) {
		return line, nil, fmt.Errorf("truncated JSON: %w", err)
	}
	o, err := into[object](line)
	if err == nil && o == nil {
		err = errors.New("not an object")
	}
	return line, o, err
}

// into decodes a value, and says what is wrong with it in the words of the file.
func into[T any](raw json.RawMessage) (v T, err error) {
	if len(raw) == 0 {
		return v, nil
	}
	err = json.Unmarshal(raw, &v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return v, errors.New(strings.TrimPrefix(wrong.Field+": ", ": ") + "unexpected " + wrong.Value)
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		err = fmt.Errorf("not JSON: %w", err)
	}
	return v, err
}

// kindOf returns the first character of a JSON value, '0' for numbers, and 'n' for null and for no value.
func kindOf(raw json.RawMessage) byte {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	switch {
	case len(raw) == 0:
		return 'n'
	case raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9':
		return '0'
	default:
		return raw[0]
	}
}

// textOf is the text of a JSON string; empty for any other value.
func textOf(raw json.RawMessage) string {
	text, _ := into[any](raw)
	s, _ := text.(string)
	return s
}

// argsOf are the arguments of a call: the first value that is there. The bytes of a string stay, others lose their spaces.
func argsOf(values ...json.RawMessage) []byte {
	for _, raw := range values {
		if kindOf(raw) == '"' {
			return bytesOf(textOf(raw))
		}
		if kindOf(raw) != 'n' {
			return compact(raw)
		}
	}
	return nil
}

// bytesOf returns the bytes of s, nil for none, as decoding an omitted field does.
func bytesOf(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

// pick returns an object of those of keys that are present, as JSON; nil where none is.
func (o object) pick(keys ...string) []byte {
	var out []byte
	for _, key := range keys {
		if kindOf(o[key]) != 'n' {
			out = append(strconv.AppendQuote(append(out, ','), key), ':')
			out = append(out, compact(o[key])...)
		}
	}
	if out == nil {
		return nil
	}
	out[0] = '{'
	return append(out, '}')
}

// compact returns valid JSON without its spaces; order of keys and text of numbers stay.
func compact(raw json.RawMessage) []byte {
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil {
		panic("recording: compact of invalid JSON: " + err.Error())
	}
	return out.Bytes()
}

// count is an integer; fractions are cut off.
type count int64

// UnmarshalJSON reads any number.
func (c *count) UnmarshalJSON(data []byte) error {
	var x float64
	if err := json.Unmarshal(data, &x); err != nil {
		return err
	}
	if math.Abs(x) >= 1<<63 {
		return &json.UnmarshalTypeError{Value: "number " + string(data)}
	}
	*c = count(x)
	return nil
}

// identifier is a string, or the text of a number.
type identifier string

// UnmarshalJSON reads either.
func (i *identifier) UnmarshalJSON(data []byte) error {
	if kindOf(data) == '0' {
		*i = identifier(data)
		return nil
	}
	return json.Unmarshal(data, (*string)(i))
}
