package openai

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/lash-go/lash/workers/llm"
)

// failure is the error of an endpoint, under any of its names.
type failure struct {
	message string
	typ     string
	code    string // text, or a status as digits
}

// explain converts an HTTP failure to an error.
func (p *endpoint) explain(status int, body []byte) *llm.Error {
	f, ok := parseFailure(body)
	if !ok && status < http.StatusMultipleChoices {
		return &llm.Error{Kind: llm.KindMalformed, Message: "the endpoint answered with something other than a stream"}
	}
	if !ok {
		f.message = string(body)
	}
	return p.failed(status, f, body)
}

// failed converts f; status is 0 inside a stream.
func (p *endpoint) failed(status int, f failure, raw []byte) *llm.Error {
	return &llm.Error{
		Kind:    f.kind(status),
		Code:    llm.Redact(f.name(), p.key),
		Message: llm.Redact(f.message, p.key),
		Raw:     llm.Raw(raw, p.key),
	}
}

func (f failure) name() string {
	if f.code != "" {
		return f.code
	}
	return f.typ
}

func (f failure) is(names ...string) bool {
	for _, n := range names {
		if f.code == n || f.typ == n {
			return true
		}
	}
	return false
}

func (f failure) kind(status int) llm.ErrorKind {
	if status < http.StatusMultipleChoices {
		status, _ = strconv.Atoi(f.code)
	}
	switch {
	case f.is("insufficient_quota", "billing_hard_limit_reached", "billing_not_active"):
		return llm.KindAuth
	case f.is("context_length_exceeded", "exceed_context_size_error"), status == http.StatusBadRequest && f.overflows():
		return llm.KindOverflow
	case f.is("rate_limit_exceeded", "rate_limit_error"):
		return llm.KindRateLimit
	case status >= http.StatusMultipleChoices:
		return llm.StatusKind(status)
	case f.is("invalid_api_key", "authentication_error", "permission_error"):
		return llm.KindAuth
	case f.overflows():
		return llm.KindOverflow
	case f.is("invalid_request_error", "invalid_prompt", "data_residency_mismatch"), f.forbidden():
		return llm.KindRequest
	}
	return llm.KindServer
}

// forbidden reports whether the code is that of a policy, or of an image that is not accepted.
func (f failure) forbidden() bool {
	return strings.Contains(f.code, "image") || strings.HasSuffix(f.code, "_policy") || strings.HasSuffix(f.code, "_policy_violation")
}

// overflows searches the text, because most endpoints other than OpenAI's have no code for this error.
func (f failure) overflows() bool {
	text := strings.ToLower(f.message)
	for _, s := range []string{"context length", "context size", "context window", "exceeds the maximum number of tokens"} {
		if strings.Contains(text, s) {
			return true
		}
	}
	return false
}

// parseFailure reads {"error": {...}}, {"error": "text"}, the same without the envelope or in an array, and
// {"detail": ...}. It reports whether it found any.
func parseFailure(body []byte) (failure, bool) {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return failure{}, false
	}
	if inner, ok := members["error"]; ok && string(inner) != "null" {
		return parseInner(inner), true
	}
	if detail, ok := members["detail"]; ok {
		return failure{message: text(detail)}, true
	}
	f := parseInner(body)
	return f, f.message != ""
}

func parseInner(body []byte) failure {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return failure{message: text(body)}
	}
	return failure{message: text(members["message"]), typ: text(members["type"]), code: text(members["code"])}
}

// text is a JSON string's value, and any other JSON as it stands; null is empty.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil || string(raw) == "null" {
		return s
	}
	return string(raw)
}
