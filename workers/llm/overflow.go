package llm

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What an error names in tokens: a limit, and any number.
var (
	limitNamed = regexp.MustCompile(`(?i)(?:maximum|limit|window|up to|less than|<=|>)[^0-9]{0,40}([0-9][0-9,]{3,})`)
	numbers    = regexp.MustCompile(`[0-9][0-9,]{3,}`)
)

// Fits is the share of a prompt that fits, from 0 to 1, as the text of an overflow tells it by the limit and what was requested; 1 where it
// does not tell both.
func (e *Error) Fits() float64 {
	named := limitNamed.FindStringSubmatch(e.Message)
	if named == nil {
		return 1
	}
	limit, largest := tokens(named[1]), 0.0
	for _, text := range numbers.FindAllString(e.Message, -1) {
		largest = max(largest, tokens(text))
	}
	const most = 50_000_000 // tokens of any prompt
	if limit < 1 || largest > most {
		return 1
	}
	return min(limit/largest, 1)
}

func tokens(text string) float64 {
	n, _ := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64) // digits
	return n
}

// overflows reports whether a failure is that of a prompt which does not fit the model's window. Most endpoints have no
// code for it, and gateways pass the text on with any status and any type. A limit of tokens in a time is none.
func (f Failure) overflows() bool {
	text := strings.ToLower(f.Message)
	says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
	}
	switch {
	case f.named(KindOverflow) != "", says("request too large for", "tokens must be reduced"): // more than a time's limit at once never fits
		return true
	case says("per minute", "per day", "rate limit", "rate-limit", "too many requests", "quota", "please wait", "tokens` must be less than or equal to"): // the last is the reply's
		return false
	}
	return says(
		"context length", "context size", "context window", "context limit", "context overflow", "context_length", "context_window",
		"prompt is too long", "prompt too long", "prompt is longer", "prompt exceeds", "maximum prompt length", "prompt token count", "prompt length", "超长", // Anthropic's first
		"input is too long", "input is too large", "input too long", "input exceeds", "input token count", "input tokens exceed", "too many input tokens", "max input tokens", "inputs` must have less than", // Bedrock's first
		"maximum number of tokens", "maximum model length", "max_model_len", "model token limit", "longer than the maximum", "exceeds max length",
		"input length", "total tokens limit", "max_seq_len", "max_new_tokens", "reduce the length of", "reduce your prompt", "too many tokens:",
		"content': string too long", "output': string too long", "'messages': array too long", "'input': array too long", // of the tools they are none
		"model maximum (", "total tokens exceed", "maximum number of input tokens", "required for long context", "body too large for", "max message tokens", "must be at least 1, got -", // Bedrock's, Cohere's, Anthropic's, GitHub's, Volcengine's, vLLM's
	)
}
