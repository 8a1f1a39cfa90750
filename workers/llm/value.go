package llm

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lash-go/lash/events"
)

// TextOf is the text of a JSON string; null and a missing member are empty. It keeps bytes that are not UTF-8: an endpoint may
// split a character between events. Any other JSON is an [*Error] of kind malformed.
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
		if err := Decode(slices.Concat([]byte{'"'}, rest[:n], []byte{'"'}), &s); err != nil {
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

// valid is the number of bytes before the first that is not UTF-8.
func valid(b []byte) (n int) {
	for n < len(b) {
		r, size := utf8.DecodeRune(b[n:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		n += size
	}
	return n
}

// pieceKinds are the kinds of pieces by the names that wires have for them.
var pieceKinds = map[string]events.PartKind{ //nolint:gochecknoglobals // a table that is only read
	"text": events.PartText, "output_text": events.PartText, "input_text": events.PartText, "refusal": events.PartText, "message": events.PartText,
	"thinking": events.PartReasoning, "reasoning": events.PartReasoning, "reasoning_text": events.PartReasoning,
	"reasoning_summary_text": events.PartReasoning, "summary_text": events.PartReasoning, "signature": events.PartReasoning,
	"tool_use": events.PartToolCall, "input_json": events.PartToolCall, "partial_json": events.PartToolCall,
	"function_call": events.PartToolCall, "function_call_arguments": events.PartToolCall,
}

// KindOf is the kind of a piece by the name of its type, or of its delta; empty for others.
func KindOf(name string) events.PartKind { return pieceKinds[strings.TrimSuffix(name, "_delta")] }

// Fragments are the pieces of a text: p with a JSON string, see [TextOf], or with the pieces of a text, which may be of another
// kind or say that they refuse, in a list or one in an object. Those of unknown kinds are left out, and those without a text have
// no fields; there is one at least. Any other JSON is an [*Error] of kind malformed.
func Fragments(p Piece, raw json.RawMessage) ([]Piece, error) {
	const depth = 4 // a list of pieces, one of which is a list of pieces of thinking
	pieces, err := fragments(p, raw, depth)
	if len(pieces) == 0 {
		p.Fields = nil
		pieces = []Piece{p}
	}
	for i := 1; i < len(pieces); i++ { // they continue the first
		pieces[i].Begin, pieces[i].Signature = false, ""
	}
	return pieces, err
}

func fragments(in Piece, raw json.RawMessage, depth int) (pieces []Piece, err error) {
	raw = bytes.TrimLeft(raw, blanks)
	var inner []json.RawMessage
	switch {
	case len(raw) == 0 || raw[0] != '[' && raw[0] != '{':
		if in.Text, err = TextOf(raw); in.Text == "" {
			in.Fields = nil
		}
		return []Piece{in}, err
	case depth == 0:
		return nil, Malformed("lists in lists where a text stands")
	case raw[0] == '[':
		err = Decode(raw, &inner)
	default:
		var m Members
		err = Decode(raw, &m)
		name := m.Label("type")
		said := firstOf(m["text"], m["thinking"], m["reasoning"], m["summary"], m["refusal"], m["content"], m["value"])
		of := KindOf(name)
		in.Refused = in.Refused || name == "refusal" || IsSet(m["refusal"])
		switch {
		case name == "" && said == nil && err == nil:
			err = Malformed("an object without a text where a text stands")
		case of == events.PartReasoning && in.Kind == events.PartText: // a piece of a text may be one of a thought
			in = Piece{Kind: of}
		case name != "" && of != events.PartText && of != events.PartReasoning:
			said = nil
		}
		if said != nil {
			inner = append(inner, said)
		}
	}
	for _, raw := range inner {
		more, failed := fragments(in, raw, depth-1)
		pieces, err = append(pieces, more...), cmp.Or(err, failed)
	}
	return pieces, err
}

// ArgumentsOf is the text of a call's arguments: a JSON string, see [TextOf], or the object itself, which some languages have as [].
func ArgumentsOf(raw json.RawMessage) (string, error) {
	if len(raw) > 0 && (raw[0] == '{' || string(raw) == "[]") {
		return string(raw), nil
	}
	return TextOf(raw)
}

// Members are the members of a JSON object.
type Members map[string]json.RawMessage

// MembersOf are the members of an object, nil for other JSON.
func MembersOf(raw []byte) (m Members) {
	if bytes.Contains(raw, []byte("{")) {
		_ = json.Unmarshal(raw, &m)
	}
	return m
}

// Object is a member that is an object; nil without it. Any other JSON is an [*Error] of kind malformed.
func (m Members) Object(name string) (in Members, err error) {
	err = Decode(m[name], &in)
	return in, err
}

// Label is a member that is a name or an id: a JSON string, or a number as its digits; empty for any other JSON.
func (m Members) Label(name string) string {
	raw := m[name]
	if len(raw) == 0 || !strings.ContainsRune(`"-0123456789`, rune(raw[0])) {
		return ""
	}
	return plain(raw)
}

// Number is a count or an index.
type Number int64

// Value is 0 for nil.
func (n *Number) Value() Number { return *cmp.Or(n, new(Number)) }

// Number is a member that is a number, without its fraction, or a string of one; nil without it, and 0 for any other JSON.
func (m Members) Number(name string) *Number {
	const most = 1 << 53
	if !IsSet(m[name]) {
		return nil
	}
	n := new(Number)
	if f, err := strconv.ParseFloat(string(bytes.Trim(m[name], `"`)), 64); err == nil && !math.IsNaN(f) {
		*n = Number(min(max(f, -most), most))
	}
	return n
}

// Decode decodes JSON, of which members of the right form are decoded in any case; nil is a member that is missing. The error is an
// [*Error] of kind malformed.
func Decode(data []byte, into any) error {
	if data == nil {
		return nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return Malformed("JSON of another form: " + err.Error())
	}
	return nil
}

// Malformed is the error of an endpoint that violates its API.
func Malformed(what string) *Error {
	return &Error{Kind: KindMalformed, Message: Clip("the endpoint sent something other than its API has: " + what)}
}

// decoded is JSON with numbers as they stand; nil if it is none.
func decoded(raw []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	_ = d.Decode(&v)
	return v
}

func object(v any) Object { m, _ := v.(map[string]any); return m }

func list(v any) []any { l, _ := v.([]any); return l }

// clone is a copy of an object, empty for another value.
func clone(v any) Object {
	out := Object{}
	maps.Copy(out, object(v))
	return out
}

// texts are the texts of a list, or the one that v is.
func texts(v any) (out []string) {
	for _, one := range append(slices.Clip(list(v)), v) {
		if s, ok := one.(string); ok {
			out = append(out, s)
		}
	}
	return out
}
