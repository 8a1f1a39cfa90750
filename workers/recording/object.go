package recording

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"
)

// object is a JSON object. Of a duplicate key the last value counts. It is a map, because for a struct encoding/json
// ignores the case of keys.
type object map[string]json.RawMessage

// parseLine returns the object in line. A list is one of items.
func parseLine(line []byte) (object, error) {
	if !utf8.Valid(line) {
		return nil, errors.New("invalid UTF-8")
	}
	if !json.Valid(line) {
		return nil, notJSON(line)
	}
	if kindOf(line) == '[' {
		return object{"data": line}, nil
	}
	return parseObject(line)
}

// notJSON is the error for a line that is not valid JSON.
func notJSON(line []byte) error {
	var raw json.RawMessage
	// A decoder distinguishes an early end; Unmarshal does not.
	if err := json.NewDecoder(bytes.NewReader(line)).Decode(&raw); errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("truncated JSON: %w", err)
	}
	return fmt.Errorf("not JSON: %w", json.Unmarshal(line, &raw))
}

// parseObject reads raw, which is valid JSON.
func parseObject(raw json.RawMessage) (object, error) {
	if kindOf(raw) != '{' {
		return nil, errors.New("not an object")
	}
	var o object
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, err
	}
	return o, nil
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

// str returns the string at key. It is absent where null.
func (o object) str(key string) (s string, ok bool, err error) {
	switch kindOf(o[key]) {
	case 'n':
		return "", false, nil
	case '"':
		err = json.Unmarshal(o[key], &s)
		return s, true, err
	default:
		return "", false, fmt.Errorf("%s: not a string", key)
	}
}

// must returns the string at key, which may be empty but not absent.
func (o object) must(key string) (string, error) {
	s, ok, err := o.str(key)
	if err == nil && !ok {
		err = fmt.Errorf("no %s", key)
	}
	return s, err
}

// identifier returns the ID at key: a string, or a number's text. It is empty where absent.
func (o object) identifier(key string) (string, error) {
	if kindOf(o[key]) == '0' {
		return string(compact(o[key])), nil
	}
	s, _, err := o.str(key)
	return s, err
}

// number returns the integer at key; fractions are cut off. It is absent where null.
func (o object) number(key string) (n int64, ok bool, err error) {
	switch kindOf(o[key]) {
	case 'n':
		return 0, false, nil
	case '0':
	default:
		return 0, false, fmt.Errorf("%s: not a number", key)
	}
	text := string(compact(o[key]))
	if n, err = strconv.ParseInt(text, 10, 64); err == nil {
		return n, true, nil
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.Abs(x) >= 1<<63 {
		return 0, false, fmt.Errorf("%s: out of range", key)
	}
	return int64(x), true, nil
}

// object returns the object at key. It is nil where absent.
func (o object) object(key string) (object, error) {
	if kindOf(o[key]) == 'n' {
		return nil, nil
	}
	inner, err := parseObject(o[key])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return inner, nil
}

// mustObject returns the object at key, which may not be absent.
func (o object) mustObject(key string) (object, error) {
	inner, err := o.object(key)
	if err == nil && inner == nil {
		err = fmt.Errorf("no %s", key)
	}
	return inner, err
}

// list returns the elements of the array at key. It is nil where absent.
func (o object) list(key string) ([]json.RawMessage, error) {
	switch kindOf(o[key]) {
	case 'n':
		return nil, nil
	case '[':
		var all []json.RawMessage
		err := json.Unmarshal(o[key], &all)
		return all, err
	default:
		return nil, fmt.Errorf("%s: not an array", key)
	}
}

// fields reads several optional values of an object and keeps the first error.
type fields struct {
	o   object
	err error
}

func (f *fields) setError(err error) {
	if f.err == nil {
		f.err = err
	}
}

// text returns the string at key, empty where absent.
func (f *fields) text(key string) string {
	s, _, err := f.o.str(key)
	f.setError(err)
	return s
}

// count returns the integer at key, 0 where absent.
func (f *fields) count(key string) int64 {
	n, _, err := f.o.number(key)
	f.setError(err)
	return n
}

// flag returns the boolean at key, false where absent.
func (f *fields) flag(key string) bool {
	switch kindOf(f.o[key]) {
	case 't':
		return true
	case 'n', 'f':
	default:
		f.setError(fmt.Errorf("%s: not a boolean", key))
	}
	return false
}

// pick returns an object of those of keys that are present, as JSON; nil where none is.
func (o object) pick(keys ...string) []byte {
	var out []byte
	for _, key := range keys {
		if kindOf(o[key]) == 'n' {
			continue
		}
		sep := byte(',')
		if out == nil {
			sep = '{'
		}
		out = strconv.AppendQuote(append(out, sep), key)
		out = append(append(out, ':'), compact(o[key])...)
	}
	if out == nil {
		return nil
	}
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
