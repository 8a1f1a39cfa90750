// Package eventjson converts events and states to JSON, in one form for all outputs. It imports events.
package eventjson

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lash-go/lash/events"
)

// Value converts its content to JSON. Field names are the Go names in lower_snake, in order; empty optional fields
// are left out. Times become text. Bytes become the JSON that they contain, otherwise text, otherwise {"base64":
// "..."}.
type Value struct{ V any }

// MarshalJSON implements [json.Marshaler].
func (v Value) MarshalJSON() ([]byte, error) {
	var w jsonWriter
	w.value(reflect.ValueOf(v.V))
	return w.Bytes(), w.err
}

// Raw returns data if it is JSON. Data that is no JSON or no UTF-8 becomes a string.
func Raw(data []byte) json.RawMessage {
	if json.Valid(data) && utf8.Valid(data) {
		return data
	}
	text, _ := json.Marshal(string(data)) // a string can always be encoded
	return text
}

// Raws applies [Raw] to each element. An empty list becomes nil.
func Raws(list []json.RawMessage) []json.RawMessage {
	var out []json.RawMessage
	for _, data := range list {
		out = append(out, Raw(data))
	}
	return out
}

type jsonWriter struct {
	bytes.Buffer
	err error
}

// scalar encodes a value that encoding/json supports.
func (w *jsonWriter) scalar(v any) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil && w.err == nil {
		w.err = err
	}
	w.Truncate(w.Len() - 1) // removes the encoder's line break
}

func (w *jsonWriter) value(v reflect.Value) {
	if !v.IsValid() {
		w.WriteString("null")
		return
	}
	if name, ok := nameOfZero(v); ok {
		w.scalar(name)
		return
	}
	if at, ok := reflect.TypeAssert[events.Millis](v); ok {
		w.scalar(Clock(at))
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		w.value(v.Elem())
	case reflect.Struct:
		w.structure(v)
	case reflect.Slice:
		w.slice(v)
	case reflect.Map:
		w.mapping(v)
	default:
		w.scalar(v.Interface())
	}
}

// nameOfZero names zero values that have a meaning.
func nameOfZero(v reflect.Value) (string, bool) {
	if !v.IsZero() {
		return "", false
	}
	switch v.Interface().(type) {
	case events.Outcome:
		return "success", true
	case events.Effects:
		return "non_idempotent", true
	case events.Availability:
		return "showcased", true
	case events.Boundary:
		return "after_work", true
	}
	return "", false
}

func (w *jsonWriter) slice(v reflect.Value) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		w.bytes(v.Bytes())
		return
	}
	w.WriteByte('[')
	for i := range v.Len() {
		if i > 0 {
			w.WriteByte(',')
		}
		w.value(v.Index(i))
	}
	w.WriteByte(']')
}

func (w *jsonWriter) bytes(b []byte) {
	switch {
	case json.Valid(b) && utf8.Valid(b):
		if err := json.Compact(&w.Buffer, b); err != nil && w.err == nil {
			w.err = err
		}
	case utf8.Valid(b):
		w.scalar(string(b))
	default:
		w.scalar(map[string]string{"base64": base64.StdEncoding.EncodeToString(b)})
	}
}

func (w *jsonWriter) mapping(v reflect.Value) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	w.WriteByte('{')
	for i, k := range keys {
		if i > 0 {
			w.WriteByte(',')
		}
		w.scalar(k.String())
		w.WriteByte(':')
		w.value(v.MapIndex(k))
	}
	w.WriteByte('}')
}

func (w *jsonWriter) structure(v reflect.Value) {
	w.WriteByte('{')
	first := true
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if !field.IsExported() || omitted(v, field, v.Field(i)) {
			continue
		}
		if !first {
			w.WriteByte(',')
		}
		first = false
		w.scalar(Snake(field.Name))
		w.WriteByte(':')
		w.value(v.Field(i))
	}
	w.WriteByte('}')
}

// omitted reports whether an optional field is left out. Zero values with a name stay; an outcome stays only in tool
// results.
func omitted(of reflect.Value, field reflect.StructField, v reflect.Value) bool {
	if !strings.HasSuffix(field.Tag.Get("msgpack"), ",omitempty") || !v.IsZero() && !empty(v) {
		return false
	}
	if part, ok := reflect.TypeAssert[events.Part](of); ok {
		return field.Name != "Outcome" || part.Kind != events.PartToolResult
	}
	_, named := nameOfZero(v)
	return !named
}

func empty(v reflect.Value) bool {
	return (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
}

// Snake converts a Go name to lower_snake: RequestedAt to requested_at, ConfigID to config_id.
func Snake(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if unicode.IsUpper(r) && i > 0 {
			afterLower := !unicode.IsUpper(runes[i-1])
			beforeLower := i+1 < len(runes) && !unicode.IsUpper(runes[i+1])
			if afterLower || beforeLower {
				b.WriteByte('_')
			}
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// Event is one event with its envelope, without the commit's key, digest and salt.
type Event struct {
	Session events.SessionID `json:"session"`
	Seq     events.Seq       `json:"seq"`
	Pos     int              `json:"pos"`
	ID      events.EventID   `json:"id"`
	Time    string           `json:"time"`
	Kind    events.Kind      `json:"kind"`
	Version int64            `json:"version"`
	Turn    events.TurnID    `json:"turn,omitempty"`
	Actor   string           `json:"actor"`
	Cause   string           `json:"cause,omitempty"`
	Payload *Value           `json:"payload,omitempty"`
	Raw     []byte           `json:"raw,omitempty"` // msgpack payload of an unknown kind
	// Key is the id of the key that a payload is encrypted with which cannot be read here.
	Key uint32 `json:"key,omitempty" jsonschema:"id of the key that encrypts the payload, which is not here"`
	// Redacted is the digest that replaces a redacted payload, in hex; empty where the event has its payload.
	Redacted string `json:"redacted,omitempty" jsonschema:"digest that replaces the payload in a redacted copy, in hex digits"`
	// Redaction says who redacted the payload; nil where that is not known.
	Redaction *Redaction `json:"redaction,omitempty" jsonschema:"who redacted the payload, when and why; omitted where that is not recorded"`
}

// Redaction says who redacted a payload, when and why.
type Redaction struct {
	By     string `json:"by"`
	Time   string `json:"time"`
	Reason string `json:"reason"`
}

// Redact adds to an event without payload what the last of the records says about it.
func (ev *Event) Redact(list []events.RedactionRecord, e events.Entry) {
	if ev.Redacted == "" {
		return
	}
	if r := events.RedactionOf(list, e, ev.Pos); r != nil && r.By != "" {
		ev.Redaction = &Redaction{By: r.By, Time: Clock(r.At), Reason: r.Reason}
	}
}

// Of is the event of an entry at an index.
func Of(e events.Entry, pos int) Event {
	c, ev := e.Commit, &e.Commit.Events[pos]
	out := Event{
		Session: c.Session, Seq: e.Seq, Pos: pos, ID: c.EventID(pos), Time: Clock(c.At), Kind: ev.Kind, Version: ev.V,
		Turn: ev.Turn, Actor: c.Actor.String(), Cause: c.Cause, Raw: ev.Raw,
		Key: ev.Locked(), Redacted: hex.EncodeToString(ev.Redacted),
	}
	if ev.Payload != nil {
		out.Payload = &Value{ev.Payload}
	}
	return out
}

// String is the JSON on one line, for people.
func (v Value) String() string {
	data, err := v.MarshalJSON()
	if err != nil {
		return fmt.Sprint(err)
	}
	return string(data)
}

// Clock formats a time in UTC with milliseconds. Without a time it is empty.
func Clock(at events.Millis) string {
	if at == 0 {
		return ""
	}
	return at.Time().Format("2006-01-02T15:04:05.000Z07:00")
}
