package llm

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// TextOf is the text of a JSON string; null and a missing member are empty. It keeps bytes that are not UTF-8, which
// encoding/json replaces: an endpoint may split a character between events. The error, for any other JSON, is an [*Error]
// of kind malformed.
func TextOf(raw json.RawMessage) (string, error) {
	if !IsSet(raw) {
		return "", nil
	}
	if raw[0] != '"' {
		return "", Malformed("no string where a text stands")
	}
	var b strings.Builder
	for rest := raw[1 : len(raw)-1]; len(rest) > 0; {
		n := valid(rest)
		var s string
		if err := Decode(append(append([]byte{'"'}, rest[:n]...), '"'), &s); err != nil {
			return "", err
		}
		b.WriteString(s)
		if rest = rest[n:]; len(rest) > 0 {
			b.WriteByte(rest[0])
			rest = rest[1:]
		}
	}
	return b.String(), nil
}

// ArgumentsOf is the text of a call's arguments: that of a JSON string, see [TextOf], or a JSON object, which some
// endpoints send in its place.
func ArgumentsOf(raw json.RawMessage) (string, error) {
	if len(raw) > 0 && raw[0] == '{' {
		return string(raw), nil
	}
	return TextOf(raw)
}

// valid is the number of bytes before the first that is not UTF-8.
func valid(b []byte) int {
	if utf8.Valid(b) {
		return len(b)
	}
	n := 0
	for {
		r, size := utf8.DecodeRune(b[n:])
		if r == utf8.RuneError && size == 1 {
			return n
		}
		n += size
	}
}

// Label is a name or an id: a JSON string, or a number as its digits. Any other JSON is empty.
type Label string

// UnmarshalJSON implements [json.Unmarshaler].
func (l *Label) UnmarshalJSON(raw []byte) error {
	var s string
	var n json.Number
	switch {
	case json.Unmarshal(raw, &s) == nil:
		*l = Label(s)
	case json.Unmarshal(raw, &n) == nil:
		*l = Label(n)
	default:
		*l = ""
	}
	return nil
}

// Number is a count or an index: a JSON number without its fraction, or a string of one. Any other JSON is 0.
type Number int64

// UnmarshalJSON implements [json.Unmarshaler].
func (n *Number) UnmarshalJSON(raw []byte) error {
	const most = 1 << 53
	*n = 0
	if f, err := strconv.ParseFloat(string(bytes.Trim(raw, `"`)), 64); err == nil && !math.IsNaN(f) {
		*n = Number(min(max(f, -most), most))
	}
	return nil
}

// Decode decodes JSON of an endpoint. The error is an [*Error] of kind malformed; members of the right form are decoded
// nevertheless.
func Decode(data []byte, into any) error {
	if err := json.Unmarshal(data, into); err != nil {
		return Malformed("JSON of another form: " + err.Error())
	}
	return nil
}

// Malformed is the error of an endpoint that violates its API.
func Malformed(what string) *Error {
	return &Error{Kind: KindMalformed, Message: Clip("the endpoint sent something other than its API has: " + what)}
}
