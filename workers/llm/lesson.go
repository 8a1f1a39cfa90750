package llm

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lash-go/lash/events"
)

const (
	shortest       = 8    // characters of ids that a refusal may ask for: of fewer there are too few
	maxLessons     = 4    // requests that are made once more, each because the refusal before it told something new
	requiredTokens = 8192 // the limit of output tokens for an endpoint that requires one and does not say how many its model can write
)

// What refusals and replies tell of all wires.
const (
	outputLimit     = "limit"       // a tokenLimit: how the endpoint wants the limit of output tokens
	needsTools      = "tools"       // true: the endpoint takes no calls in a conversation without tools
	longDescription = "description" // an int: characters of the longest description of a tool
	endsThinking    = "thinking"    // true: replies begin with thinking that has the tag of its end alone
	idLength        = "ids"         // an int: of the ids of calls, which are letters and digits
	noSystem        = "system"      // true: the model's template has no system message
	oneCall         = "one call"    // true: the model's template has one call in a message
	noStream        = "stream"      // true: the endpoint does not stream, to this account or with tools
	strictForms     = "forms"       // true: the endpoint takes strict forms alone
	refuses         = "refuses "    // and a field: true
)

// Fields of requests that endpoints need not have, of which that of a name is one of results, and those of the assistant's messages that are not a vendor's.
var (
	optional = []string{"stream_options", "name", "cache_control", "store", "include"}                                                //nolint:gochecknoglobals // a table that is only read
	core     = []string{"role", "content", "tool_calls", "id", "type", "function", "name", "arguments", "call_id", "summary", "text"} //nolint:gochecknoglobals // a table that is only read
)

type lesson struct{ model, about string }

// learn keeps what a refusal told of the requested model, and reports whether it is new.
func (p *Prepared) learn(about string, what any) bool {
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
	tooLong     = regexp.MustCompile(`description.*maximum length (?:of )?([0-9]+)`)
	otherIDs    = regexp.MustCompile(`(?i)tool.call.id.*length (?:of )?([0-9]+)`) // Mistral's
	otherFields = regexp.MustCompile(`(?i)un(?:supported|known|recogni[sz]ed|expected)|not (?:supported|permitted|allowed)|forbidden|can have`)
	missing     = regexp.MustCompile("(?i)missing|must be passed|expected `thinking`")
	words       = regexp.MustCompile(`\w+`)
	unverified  = regexp.MustCompile(`(?i)signature|encrypted.content|thinking\W+blocks`) // OpenAI's, Anthropic's, Gemini's
	digits      = regexp.MustCompile(`\d+`)
	wishes      = map[string]*regexp.Regexp{ //nolint:gochecknoglobals // a table that is only read
		needsTools:  regexp.MustCompile("toolConfig field must be defined|must define (?:at least one )?tools?|without `tools=` param"), // Bedrock's, Anthropic's, LiteLLM's
		noSystem:    regexp.MustCompile(`(?i)system role (?:is )?not supported|roles are supported, got system|roles must alternate user/assistant/user`),
		oneCall:     regexp.MustCompile(`(?i)single tool-?calls? at once|tool_calls': array too long`), // Llama's, OpenAI's
		noStream:    regexp.MustCompile(`(?i)verified to stream|n[o']t support.{0,40}\bstream(?:ing)?\b|\bstream(?:ing)?\b.{0,40}not support`),
		strictForms: regexp.MustCompile(`(?i)schema type field|type: must be specified|type is not defined|non-empty for OBJECT|alongside any_of`), // Gemini's, Kimi's
	}
	limitFields = []string{"max_tokens", "max_completion_tokens", "max_output_tokens"} //nolint:gochecknoglobals // a table that is only read
)

// learns reports whether an error is a refusal that tells something new.
func (p *Prepared) learns(err error, body Object) bool {
	failed, _ := errors.AsType[*Error](err)
	switch {
	case failed == nil || failed.Kind != KindRequest && failed.Kind != KindOverflow && (failed.Kind != KindServer || failed.Status == 0):
		return false
	case failed.Kind != KindServer && p.learnsLimit(failed, body):
		return true
	case failed.Kind == KindOverflow:
		return false
	}
	for about, told := range map[string]*regexp.Regexp{longDescription: tooLong, idLength: otherIDs} {
		if told := told.FindStringSubmatch(failed.Message); told != nil {
			n, _ := strconv.Atoi(told[1])
			return n >= shortest && p.learn(about, n)
		}
	}
	news := p.forgets(failed)
	for _, list := range []map[string]*regexp.Regexp{wishes, p.endpoint.wire.Tells} {
		for about, told := range list {
			news = told.MatchString(failed.Message) && p.learn(about, true) || news
		}
	}
	if failed.Kind == KindServer {
		return news
	}
	for _, field := range words.FindAllString(failed.Message, -1) {
		if missing.MatchString(failed.Message) || slices.Contains(optional, field) && !otherFields.MatchString(failed.Message) {
			continue
		}
		news = leaveOut(body, field, false) && p.learn(refuses+field, true) || news
	}
	return news
}

// forgets reports whether the endpoint does not take back what it wanted back: a gateway asks another of its providers, or a key is of
// another account. No later request has that any more.
func (p *Prepared) forgets(failed *Error) (news bool) {
	if said := failed.Code + " " + failed.Message; !unverified.MatchString(said) || missing.MatchString(said) {
		return false
	}
	for _, m := range p.Messages {
		for _, part := range m.Parts {
			if p.Own(part).Fields != nil {
				p.endpoint.forgotten.Add(sha256.Sum256(part.Meta), true)
				news = true
			}
		}
	}
	return news
}

// leaveOut removes a field that requests need not have from a body, and reports whether it was there. said: it is within a message of the
// assistant. What tools have is no part of the body.
func leaveOut(v any, field string, said bool) (found bool) {
	switch v := v.(type) {
	case Object:
		said = said || v["role"] == string(events.RoleAssistant) || v["type"] == "function_call" || v["type"] == "reasoning"
		may := slices.Contains(optional, field) && (field != "name" || v["role"] == "tool") || said && !slices.Contains(core, field)
		if _, found = v[field]; found && may {
			delete(v, field)
		}
		found = found && may
		for _, inner := range v {
			found = leaveOut(inner, field, said) || found
		}
	case []Object:
		for _, inner := range v {
			found = leaveOut(inner, field, said) || found
		}
	}
	return found
}

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
	about := sent >= 0 && (named(fmt.Sprint(body[limitFields[sent]])) || strings.Contains(lower, "maximum tokens")) // Bedrock's
	switch wanted := slices.IndexFunc(limitFields, named); {
	case wanted < 0 && !about:
		return false
	case sent < 0:
		lacks := strings.Contains(lower, "required") || strings.Contains(lower, "missing")
		return lacks && p.learn(outputLimit, tokenLimit{limitFields[wanted], requiredTokens})
	case limitFields[sent] == "max_tokens" && named("max_completion_tokens") && strings.Contains(lower, "support"):
		return p.learn(outputLimit, tokenLimit{field: "max_completion_tokens"})
	case p.MaxOutputTokens > 0, failed.Kind == KindOverflow && !about:
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
	return limit.tokens > 1 && p.learn(outputLimit, limit)
}

// shape makes a body as the endpoint wants it.
func (p *Prepared) shape(body Object) {
	p.endpoint.lessons.Range(func(key, _ any) bool {
		l, _ := key.(lesson)
		if field, is := strings.CutPrefix(l.about, refuses); is && l.model == p.Model {
			leaveOut(body, field, false)
		}
		return true
	})
	if p.Learned(noStream) != nil {
		body["stream"] = false
		delete(body, "stream_options")
	}
	if limit, known := p.Learned(outputLimit).(tokenLimit); known {
		maps.DeleteFunc(body, func(name string, _ any) bool { return slices.Contains(limitFields, name) })
		if tokens := cmp.Or(p.MaxOutputTokens, limit.tokens); tokens > 0 {
			body[limit.field] = tokens
		}
	}
	for _, name := range limitFields {
		if n, err := strconv.ParseInt(fmt.Sprint(body[name]), 10, 64); err == nil {
			p.limit = n
		}
	}
}
