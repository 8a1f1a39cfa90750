package anthropic

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/lash-go/lash/workers/llm"
)

// failure is the error object of bodies and of error events.
type failure struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

func parseFailure(body []byte) (failure, bool) {
	var envelope struct {
		Error failure `json:"error"`
	}
	err := json.Unmarshal(body, &envelope)
	return envelope.Error, err == nil && envelope.Error != failure{}
}

// explain converts an HTTP failure to an error.
func (p *Provider) explain(status int, body []byte) *llm.Error {
	f, ok := parseFailure(body)
	if !ok && status < http.StatusMultipleChoices {
		return &llm.Error{Kind: llm.KindMalformed, Message: "the endpoint answered with something other than a stream"}
	}
	if !ok {
		f.Message = string(body)
	}
	return p.failed(status, f, body)
}

// failed converts f; status is 0 inside a stream.
func (p *Provider) failed(status int, f failure, raw []byte) *llm.Error {
	return &llm.Error{
		Kind:    f.kind(status),
		Code:    llm.Redact(f.Type, p.key),
		Message: llm.Redact(f.Message, p.key),
		Raw:     llm.Raw(raw, p.key),
	}
}

// kind uses the type, see https://docs.anthropic.com/en/api/errors, or else the status.
func (f failure) kind(status int) llm.ErrorKind {
	switch f.Type {
	case "invalid_request_error":
		if f.overflows() {
			return llm.KindOverflow
		}
		return llm.KindRequest
	case "not_found_error":
		return llm.KindRequest
	case "request_too_large":
		return llm.KindOverflow
	case "authentication_error", "permission_error", "billing_error":
		return llm.KindAuth
	case "rate_limit_error":
		return llm.KindRateLimit
	case "api_error", "overloaded_error", "timeout_error":
		return llm.KindServer
	}
	if status >= http.StatusMultipleChoices {
		return llm.StatusKind(status)
	}
	return llm.KindServer
}

// overflows searches the text: the API has no type for this error.
func (f failure) overflows() bool {
	return strings.Contains(f.Message, "prompt is too long") || strings.Contains(f.Message, "exceed context limit")
}
