package httpapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/memory"
)

// decode reads the body: one JSON value of known fields. One that creates a session may be as large as a stored body, where it can have a
// snapshot: of a caller who may configure, who announces what of its memory it needs.
func (c *httpRequest) decode(into any) error {
	most := c.s.cfg.MaxBodyBytes
	if _, creates := into.(*newSessionJSON); creates && c.session == "" && c.ContentLength > 0 && c.caller.Scope.Has(api.RightConfigure) {
		most = max(most, c.s.cfg.MaxBlobBytes)
	}
	data, err := c.readUpTo(most, copiesOfJSON)
	if err != nil {
		return err
	}
	return c.compute(func() error { return decodeBody(data, into) })
}

func decodeBody(data []byte, into any) error {
	if err := events.CheckJSON("body", data); err != nil {
		return invalidBody(err.Error())
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	switch err := dec.Decode(into); {
	case errors.Is(err, io.EOF):
		return invalidBody("a JSON object is required, {} where it says nothing")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return notJSON(fmt.Sprintf("the JSON is not complete: it ends after byte %d, want the rest of the value", len(data)))
	case err != nil:
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			return notJSON(fmt.Sprintf("is no JSON at byte %d: %s", syntax.Offset, syntax.Error()))
		}
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return wrongType(wrong)
		}
		if unknown, ok := errors.AsType[*events.FieldError](api.CheckFields(data, reflect.TypeOf(into))); ok {
			p := invalidBody(unknown.Error())
			p.Details = map[string]string{"field": unknown.Field, "reason": unknown.Reason}
			return p
		}
		return invalidBody(strings.TrimPrefix(err.Error(), "json: "))
	}
	if rest := bytes.TrimLeft(data[dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return notJSON(fmt.Sprintf("something follows the JSON at byte %d: want one value, and nothing after it", len(data)-len(rest)+1))
	}
	return walk("", reflect.ValueOf(into).Elem(), checkWord)
}

// notJSON refuses a body that is no JSON. Bytes are counted from 1 on.
func notJSON(reason string) *problem { return invalid("invalid_body", "body", ": ", reason) }

// wrongType describes the type of a field's value and the expected type, in JSON terms.
func wrongType(err *json.UnmarshalTypeError) *problem {
	return invalid("invalid_body", cmp.Or(err.Field, "body"), ": ", fmt.Sprintf("is %s, want %s", err.Value, jsonOf(err.Type)))
}

// jsonOf is the JSON type of a Go type.
func jsonOf(t reflect.Type) string {
	switch kind := t.Kind(); {
	case kind == reflect.Pointer:
		return jsonOf(t.Elem())
	case kind == reflect.String, kind == reflect.Slice && t.Elem().Kind() == reflect.Uint8: // []byte is base64
		return "string"
	case kind == reflect.Bool:
		return "bool"
	case kind == reflect.Slice:
		return "array"
	case kind == reflect.Struct, kind == reflect.Map:
		return "object"
	case t.Kind() == reflect.Uint64:
		return "whole number from 0 below 2^64"
	}
	return "whole number from -2^63 below 2^63"
}

// readUpTo reads the whole body, within a limit of bytes and its limit of time, see setDeadlines. The body will be in memory as often as
// copies says.
func (c *httpRequest) readUpTo(most, copies int64) ([]byte, error) {
	size := c.ContentLength
	if size > most {
		return nil, bodyTooLarge(most)
	}
	if size < 0 {
		size = most
	}
	if size > smallBody {
		if err := memory.Take(c.Context(), copies*size); err != nil {
			return nil, err
		}
	}
	data, err := readAll(http.MaxBytesReader(c.w, c.Body, most), min(c.ContentLength, most))
	deductBytes(c.limiter, len(data))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return nil, bodyTooLarge(tooLarge.Limit)
	}
	if err != nil {
		return nil, invalidBody("the body did not arrive")
	}
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{}) // a request that stays open has a later deadline
	return data, nil
}

func bodyTooLarge(limit int64) *problem {
	why := fmt.Sprintf("is above the limit of %d bytes", limit)
	return &problem{
		Status: http.StatusRequestEntityTooLarge, Code: "body_too_large", Detail: "the body " + why, Details: map[string]string{"field": "body", "reason": why},
	}
}

// readAll is [io.ReadAll] with a buffer of the announced size.
func readAll(from io.Reader, size int64) ([]byte, error) {
	buffer := bytes.NewBuffer(make([]byte, 0, max(size, 0)+bytes.MinRead))
	_, err := buffer.ReadFrom(from)
	return buffer.Bytes(), err
}

// keyHeader identifies a request and its repeats.
const keyHeader = "Idempotency-Key"

// idempotencyKey returns the id of what a request creates, from its body or its header. It may be empty.
func idempotencyKey[T ~string](c *httpRequest, name string, inBody T) (T, error) {
	v := T(c.Header.Get(keyHeader))
	switch {
	case v == "":
		v = inBody
	case inBody != "" && inBody != v:
		return "", invalidParam(keyHeader, "is another than the body's "+name)
	}
	if v == "" {
		return "", nil
	}
	return v, events.CheckToken(name, v)
}

// readWait is how long the request waits for a turn, from its query or its Prefer header; 0: it does not wait.
func (c *httpRequest) readWait() (time.Duration, error) {
	name, text := "wait", c.URL.Query().Get("wait")
	for preference := range strings.SplitSeq(c.Header.Get("Prefer"), ",") {
		k, v, _ := strings.Cut(strings.TrimSpace(preference), "=")
		if text == "" && strings.EqualFold(k, "wait") {
			name, text = "Prefer", v
		}
	}
	if text == "" {
		return 0, nil
	}
	wait, err := time.ParseDuration(text)
	if seconds, plain := strconv.ParseUint(text, 10, 31); plain == nil {
		wait, err = time.Duration(seconds)*time.Second, nil
	}
	if err != nil || wait < 0 || wait > c.s.cfg.MaxWait {
		return 0, invalidParam(name, fmt.Sprintf("must be a time up to %s, in seconds or as 1m30s", c.s.cfg.MaxWait))
	}
	return wait, nil
}

// cursor is the sequence after which a stream begins.
func (c *httpRequest) cursor() (events.Seq, error) {
	name, text := "Last-Event-ID", c.Header.Get("Last-Event-ID")
	if text == "" {
		name, text = "cursor", c.URL.Query().Get("cursor")
	}
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, invalidParam(name, "must be a sequence")
	}
	return events.Seq(n), nil
}
