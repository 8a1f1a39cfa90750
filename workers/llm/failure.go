package llm

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// Failure is an error as an endpoint sent it.
type Failure struct {
	Message string
	Type    string
	Code    string // text, or a status as digits
	Raw     []byte // all of what was sent
}

// ParseFailure reads an error in any known form: {"error": {...}} or {"error": "text"}, the same without the envelope or in a
// list, {"errors": [...]}, {"detail": ...}, and the members that gateways have for a text and a code. It reports whether it
// found any. Without, the message is the body.
func ParseFailure(body []byte) (Failure, bool) {
	f, ok := parseFailure(body)
	if !ok {
		f.Message = string(body)
	}
	f.Message = innermost(f.Message)
	f.Raw = body
	return f, ok
}

// FailureIn is the error of an event that is not one of its wire's own; ok is false if it is none.
func FailureIn(e ServerEvent) (f Failure, ok bool) {
	f, ok = ParseFailure(e.Data)
	return f, ok || e.Name == "error"
}

func parseFailure(body []byte) (Failure, bool) {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return Failure{}, false
	}
	for _, name := range []string{"error", "errors"} {
		if inner := members[name]; IsSet(inner) && string(inner) != "[]" && string(inner) != "{}" && string(inner) != "false" {
			f := innerFailure(inner)
			f.Code = cmp.Or(f.Code, plain(members["code"]), plain(members["status"]))
			return f, true
		}
	}
	if status := members["base_resp"]; IsSet(status) { // MiniMax's, which successes have too
		f := innerFailure(status)
		return f, f.Code != "" && f.Code != "0"
	}
	f := innerFailure(body)
	return f, f.Message != ""
}

// IsSet reports whether a member of an object is there and not null.
func IsSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

func innerFailure(body []byte) Failure {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return Failure{Message: plain(body)}
	}
	first := func(names ...string) string {
		for _, name := range names {
			if text := plain(members[name]); text != "" {
				return text
			}
		}
		return ""
	}
	f := Failure{
		Message: first("message", "msg", "error_msg", "status_msg", "detail", "error_description"),
		Type:    first("type", "status"), Code: first("code", "error_code", "status_code"),
	}
	var meta struct{ Raw json.RawMessage } // OpenRouter's: what its provider sent
	if json.Unmarshal(members["metadata"], &meta) == nil && IsSet(meta.Raw) {
		f.Message = strings.TrimSpace(f.Message + ": " + plain(meta.Raw))
	}
	return f
}

// innermost is the text of an error that a gateway passes on as JSON within its own text.
func innermost(text string) string {
	const depth = 4
	for range depth {
		at := strings.IndexByte(text, '{')
		if at < 0 {
			return text
		}
		var inner json.RawMessage
		if json.NewDecoder(strings.NewReader(text[at:])).Decode(&inner) != nil {
			return text
		}
		f, ok := parseFailure(inner)
		if !ok || f.Message == "" {
			return text
		}
		text = strings.TrimRight(text[:at], " :-\n") + ": " + f.Message
		text = strings.TrimPrefix(text, ": ")
	}
	return text
}

// plain is a JSON string's value, and any other JSON as it stands; null is empty.
func plain(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil || string(raw) == "null" {
		return s
	}
	return string(raw)
}

func (f Failure) is(names ...string) bool {
	for _, n := range names {
		if strings.EqualFold(f.Code, n) || strings.EqualFold(f.Type, n) {
			return true
		}
	}
	return false
}

// kind is the class of a failure; status is 0 inside a stream, and where an endpoint answers 200 to everything: then the code may
// be one. A status that says that the request can never succeed decides, whatever the type is called. Sources:
// https://docs.anthropic.com/en/api/errors, https://platform.openai.com/docs/guides/error-codes.
func (f Failure) kind(status int) ErrorKind {
	if status < http.StatusMultipleChoices {
		status = f.status()
	}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired:
		return KindAuth
	case status == http.StatusNotFound:
		return KindRequest
	case f.is("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error"),
		f.is("invalid_api_key", "authentication_error", "permission_error", "permission_denied", "unauthenticated"):
		return KindAuth
	case f.overflows():
		return KindOverflow
	case f.is("rate_limit_exceeded", "rate_limit_error"):
		return KindRateLimit
	case f.is("overloaded_error"):
		return KindServer
	case status >= http.StatusMultipleChoices && status < 600:
		return statusKind(status)
	case f.is("invalid_request_error", "not_found_error", "invalid_prompt", "data_residency_mismatch", "invalid_argument"), f.forbidden():
		return KindRequest
	}
	return KindServer
}

// status is a code that is an HTTP status, or 0.
func (f Failure) status() int {
	n, _ := strconv.Atoi(f.Code)
	return n
}

// forbidden reports whether the code is that of a policy, or of an image that is not accepted.
func (f Failure) forbidden() bool {
	return strings.Contains(f.Code, "image") || strings.HasSuffix(f.Code, "_policy") || strings.HasSuffix(f.Code, "_policy_violation")
}

// statusKind is the class of an HTTP status, for a response without a better reason.
func statusKind(status int) ErrorKind {
	switch {
	case status == http.StatusTooManyRequests:
		return KindRateLimit
	case status >= 500:
		return KindServer
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired:
		return KindAuth
	case status == http.StatusRequestTimeout:
		return KindTransport
	case status == http.StatusRequestEntityTooLarge:
		return KindOverflow
	}
	return KindRequest
}
