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

// maxLessons limits the requests that are made once more, each because the refusal before it told something new.
const maxLessons = 4

// What refusals tell of all wires.
const (
	outputLimit     = "limit"       // a tokenLimit: how the endpoint wants the limit of output tokens
	needsTools      = "tools"       // true: the endpoint takes no calls in a conversation without tools
	longDescription = "description" // an int: characters of the longest description of a tool
)

type lesson struct{ model, about string }

// Learn keeps what a refusal told of the requested model, and reports whether it is new.
func (p *Prepared) Learn(about string, what any) bool {
	before, _ := p.endpoint.lessons.Swap(lesson{p.Model, about}, what)
	return before != what
}

// Learned is what an earlier refusal told, or nil.
func (p *Prepared) Learned(about string) any {
	what, _ := p.endpoint.lessons.Load(lesson{p.Model, about})
	return what
}

// What refusals are known by.
var (
	missingTools = regexp.MustCompile("toolConfig field must be defined|must define (?:at least one )?tools?|without `tools=` param") // Bedrock's, Anthropic's, LiteLLM's
	tooLong      = regexp.MustCompile(`description.*maximum length (?:of )?([0-9]+)`)
	digits       = regexp.MustCompile(`\d+`)
	limitFields  = []string{"max_tokens", "max_completion_tokens", "max_output_tokens"} //nolint:gochecknoglobals // a table that is only read
)

// learns reports whether an error is a refusal that tells something new.
func (p *Prepared) learns(err error, body Object) bool {
	failed, _ := errors.AsType[*Error](err)
	switch {
	case failed == nil || failed.Kind != KindRequest && failed.Kind != KindOverflow:
		return false
	case p.learnsLimit(failed, body):
		return true
	case failed.Kind != KindRequest:
		return false
	case len(p.Tools) == 0 && missingTools.MatchString(failed.Message) && p.Learn(needsTools, true):
		return true
	}
	if told := tooLong.FindStringSubmatch(failed.Message); told != nil {
		longest, _ := strconv.Atoi(told[1])
		return longest > 0 && p.Learn(longDescription, longest)
	}
	return p.endpoint.wire.Learn != nil && p.endpoint.wire.Learn(p, failed)
}

// requiredTokens is the limit of output tokens for an endpoint that requires one and does not say how many its model can
// write.
const requiredTokens = 8192

// tokenLimit is how an endpoint wants the limit of output tokens for a model.
type tokenLimit struct {
	field  string
	tokens int64 // where the request sets none
}

// learnsLimit reads a refusal of a request for its limit of output tokens: there is none, the endpoint has another field for it,
// or the adapter's default is more than the model can write.
func (p *Prepared) learnsLimit(failed *Error, body Object) bool {
	sent := slices.IndexFunc(limitFields, func(name string) bool { return body[name] != nil })
	named := func(name string) bool { return strings.Contains(failed.Message, name) }
	lower := strings.ToLower(failed.Message)
	switch wanted := slices.IndexFunc(limitFields, named); {
	case wanted < 0:
		return false
	case sent < 0:
		missing := strings.Contains(lower, "required") || strings.Contains(lower, "missing")
		return missing && p.Learn(outputLimit, tokenLimit{limitFields[wanted], requiredTokens})
	case limitFields[sent] == "max_tokens" && named("max_completion_tokens") && strings.Contains(lower, "support"):
		return p.Learn(outputLimit, tokenLimit{field: "max_completion_tokens"})
	case p.MaxOutputTokens > 0, failed.Kind == KindOverflow && !strings.Contains(lower, "too large"):
		return false // the caller must know that its limit is too large, or its prompt
	}
	limit := tokenLimit{field: limitFields[sent]}
	tokens, _ := body[limit.field].(int)
	for _, n := range digits.FindAllString(failed.Message, -1) {
		if n, err := strconv.ParseInt(n, 10, 64); err == nil && n < int64(tokens) {
			limit.tokens = max(limit.tokens, n)
		}
	}
	if failed.Kind == KindOverflow {
		limit.tokens /= 2 // the number is that of the window, which has the prompt too
	}
	return limit.tokens > 1 && p.Learn(outputLimit, limit)
}

// setLimit puts the limit into a body as the endpoint wants it.
func (p *Prepared) setLimit(body Object) {
	limit, known := p.Learned(outputLimit).(tokenLimit)
	if !known {
		return
	}
	maps.DeleteFunc(body, func(name string, _ any) bool { return slices.Contains(limitFields, name) })
	if tokens := cmp.Or(p.MaxOutputTokens, limit.tokens); tokens > 0 {
		body[limit.field] = tokens
	}
}
