package llm

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lash-go/lash/events"
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

// Fragments are the pieces of a text of a kind: a JSON string, see [TextOf], or the pieces of a text, which may be of another
// kind, in a list or one in an object. They have nothing but kind and text. Pieces of unknown kinds are left out. refused: one
// of them is a refusal. Any other JSON is an [*Error] of kind malformed.
func Fragments(kind events.PartKind, raw json.RawMessage) (list []Piece, refused bool, err error) {
	const depth = 4 // a list of pieces, one of which is a list of pieces of thinking
	return fragments(kind, raw, depth)
}

func fragments(kind events.PartKind, raw json.RawMessage, depth int) (list []Piece, refused bool, err error) {
	raw = bytes.TrimLeft(raw, blanks)
	switch {
	case len(raw) == 0 || raw[0] != '[' && raw[0] != '{':
		text, err := TextOf(raw)
		return []Piece{{Kind: kind, Text: text}}, false, err
	case depth == 0:
		return nil, false, Malformed("lists in lists where a text stands")
	case raw[0] == '{':
		return fragment(kind, raw, depth)
	}
	var pieces []json.RawMessage
	if err := Decode(raw, &pieces); err != nil {
		return nil, false, err
	}
	for _, raw := range pieces {
		inner, no, err := fragments(kind, raw, depth-1)
		if err != nil {
			return nil, false, err
		}
		list, refused = append(list, inner...), refused || no
	}
	return list, refused, nil
}

// fragment are the pieces of an object that is a piece of a text.
func fragment(kind events.PartKind, raw json.RawMessage, depth int) (list []Piece, refused bool, err error) {
	var p struct {
		Type                                                        Label
		Text, Thinking, Reasoning, Refusal, Summary, Content, Value json.RawMessage
	}
	if err := Decode(raw, &p); err != nil {
		return nil, false, err
	}
	switch strings.TrimSuffix(string(p.Type), "_delta") {
	case "", "text", "output_text", "input_text":
	case "thinking", "reasoning", "reasoning_text", "summary_text":
		kind = events.PartReasoning
	case "refusal":
		refused = true
	default:
		return nil, false, nil
	}
	for _, inner := range []json.RawMessage{p.Text, p.Thinking, p.Reasoning, p.Summary, p.Refusal, p.Content, p.Value} {
		if IsSet(inner) {
			list, no, err := fragments(kind, inner, depth-1)
			return list, refused || no || IsSet(p.Refusal), err
		}
	}
	if p.Type == "" {
		return nil, false, Malformed("an object without a text where a text stands")
	}
	return nil, refused, nil
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
