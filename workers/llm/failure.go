package llm

import (
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

// ParseFailure reads {"error": {...}}, {"error": "text"}, the same without the envelope or in an array, and
// {"detail": ...}. It reports whether it found any. Without, the message is the body.
func ParseFailure(body []byte) (Failure, bool) {
	f, ok := parseFailure(body)
	if !ok {
		f.Message = string(body)
	}
	f.Raw = body
	return f, ok
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
	if inner := members["error"]; IsSet(inner) {
		return innerFailure(inner), true
	}
	if detail, ok := members["detail"]; ok {
		return Failure{Message: plain(detail)}, true
	}
	f := innerFailure(body)
	return f, f.Message != ""
}

// IsSet reports whether a member of an object is there and not null.
func IsSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

func innerFailure(body []byte) Failure {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return Failure{Message: plain(body)}
	}
	return Failure{Message: plain(members["message"]), Type: plain(members["type"]), Code: plain(members["code"])}
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
		if f.Code == n || f.Type == n {
			return true
		}
	}
	return false
}

// kind is the class of a failure; status is 0 inside a stream. Sources: https://docs.anthropic.com/en/api/errors,
// https://platform.openai.com/docs/guides/error-codes.
func (f Failure) kind(status int) ErrorKind {
	if status < http.StatusMultipleChoices {
		status, _ = strconv.Atoi(f.Code)
	}
	switch {
	case f.is("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error"),
		f.is("invalid_api_key", "authentication_error", "permission_error"):
		return KindAuth
	case f.is("context_length_exceeded", "exceed_context_size_error", "request_too_large"), status == http.StatusBadRequest && f.overflows():
		return KindOverflow
	case f.is("rate_limit_exceeded", "rate_limit_error"):
		return KindRateLimit
	case f.is("overloaded_error"):
		return KindServer
	case status >= http.StatusMultipleChoices:
		return statusKind(status)
	case f.overflows():
		return KindOverflow
	case f.is("invalid_request_error", "not_found_error", "invalid_prompt", "data_residency_mismatch"), f.forbidden():
		return KindRequest
	}
	return KindServer
}

// forbidden reports whether the code is that of a policy, or of an image that is not accepted.
func (f Failure) forbidden() bool {
	return strings.Contains(f.Code, "image") || strings.HasSuffix(f.Code, "_policy") || strings.HasSuffix(f.Code, "_policy_violation")
}

// overflows searches the text, because most endpoints have no code for this error.
func (f Failure) overflows() bool {
	text := strings.ToLower(f.Message)
	for _, s := range []string{
		"context length", "context size", "context window", "exceeds the maximum number of tokens",
		"prompt is too long", "exceed context limit", // Anthropic's
	} {
		if strings.Contains(text, s) {
			return true
		}
	}
	return false
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
