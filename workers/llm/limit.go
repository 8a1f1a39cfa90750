package llm

import (
	"cmp"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// requiredTokens is the limit of output tokens for an endpoint that requires one and does not say how many its model can
// write.
const requiredTokens = 8192

// tokenLimit is how an endpoint wants the limit of output tokens for a model.
type tokenLimit struct {
	field  string
	tokens int64 // where the request sets none
}

var (
	limitFields = []string{"max_tokens", "max_completion_tokens", "max_output_tokens"} //nolint:gochecknoglobals // a table that is only read
	digits      = regexp.MustCompile(`\d+`)
)

// limitOf reads a refusal of a request for its limit of output tokens: there is none, the endpoint has another field for it, or
// the adapter's default is more than the model can write.
func limitOf(err error, body map[string]any, req *Request) (limit tokenLimit, ok bool) {
	failed, _ := errors.AsType[*Error](err)
	if failed == nil || failed.Kind != KindRequest && failed.Kind != KindOverflow {
		return limit, false
	}
	text := failed.Message
	sent := slices.IndexFunc(limitFields, func(name string) bool { return body[name] != nil })
	named := func(name string) bool { return strings.Contains(text, name) }
	lower := strings.ToLower(text)
	switch wanted := slices.IndexFunc(limitFields, named); {
	case wanted < 0:
		return limit, false
	case sent < 0 && (strings.Contains(lower, "required") || strings.Contains(lower, "missing")):
		return tokenLimit{limitFields[wanted], requiredTokens}, true
	case sent < 0:
		return limit, false
	case limitFields[sent] == "max_tokens" && named("max_completion_tokens") && strings.Contains(lower, "support"):
		return tokenLimit{field: "max_completion_tokens"}, true
	case req.MaxOutputTokens > 0, failed.Kind == KindOverflow && !strings.Contains(lower, "too large"):
		return limit, false // the caller must know that its limit is too large, or its prompt
	}
	limit.field = limitFields[sent]
	tokens, _ := body[limit.field].(int)
	for _, n := range digits.FindAllString(text, -1) {
		if n, err := strconv.ParseInt(n, 10, 64); err == nil && n < int64(tokens) {
			limit.tokens = max(limit.tokens, n)
		}
	}
	if failed.Kind == KindOverflow {
		limit.tokens /= 2 // the number is that of the window, which has the prompt too
	}
	return limit, limit.tokens > 1
}

// set puts the limit into the body of a request.
func (l tokenLimit) set(body map[string]any, req *Request) {
	maps.DeleteFunc(body, func(name string, _ any) bool { return slices.Contains(limitFields, name) })
	if tokens := cmp.Or(req.MaxOutputTokens, l.tokens); tokens > 0 {
		body[l.field] = tokens
	}
}
