package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// Vendor fields that the endpoint that sent them requires back: those of calls by their names, and others by these.
const (
	textField      = "text_field" // of reasoning: the name of the field that its text was in
	messagePrefix  = "message."   // of the whole message
	functionPrefix = "function."  // of the function of a call
)

// reasoningFields are the fields that compatible endpoints send reasoning in. OpenRouter sends two, with one text.
var reasoningFields = []string{"reasoning_content", "reasoning", "reasoning_text", "thinking"} //nolint:gochecknoglobals // a table that is only read

// Fields with a meaning of their own. An endpoint wants every other one back.
var (
	callFields     = []string{"index", "id", "type", "function", "name", "arguments"} //nolint:gochecknoglobals // a table that is only read
	functionFields = []string{"name", "arguments"}                                    //nolint:gochecknoglobals // a table that is only read
	messageFields  = append([]string{                                                 //nolint:gochecknoglobals // a table that is only read
		"role", "content", "refusal", "tool_calls", "function_call", "annotations", "audio", "images", "logprobs", "citations", "usage", "error",
		"finish_reason", "stop_reason", "id", "type", "object", "model", "name", "status", "tool_call_id",
	}, reasoningFields...)
)

// rest adds what m has beside known to out, under a prefix.
func rest(m, out llm.Members, prefix string, known []string) {
	for name, value := range m {
		if llm.IsSet(value) && !slices.Contains(known, name) {
			out[prefix+name] = value
		}
	}
}

// decode reads an event of a Chat Completions stream, or a whole reply.
func decode(e llm.ServerEvent) (u llm.Update, err error) {
	c, usage := e.Members, e.Members["usage"]
	var choices []llm.Members
	if err := llm.Decode(c["choices"], &choices); err != nil {
		return u, err
	}
	u.Unknown = len(choices) == 0 && !llm.IsSet(usage)
	u.Model, u.ID = c.Label("model"), c.Label("id")
	var choice llm.Members
	for i, c := range choices { // one is requested
		if n := c.Number("index").Value(); i == 0 || n == 0 {
			choice, u.Choice = c, n
		}
	}
	if u.Failure = llm.FailureIn(choice); u.Failure != nil {
		return u, nil
	}
	said, err := choice.Object("delta")
	if len(said) == 0 && err == nil {
		said, err = choice.Object("message") // of a whole reply
		u.Whole = said != nil
	}
	err = cmp.Or(err, read(said, &u))
	reason := choice.Label("finish_reason")
	if native := choice.Label("native_finish_reason"); strings.Contains(strings.ToLower(native), "error") { // OpenRouter's, beside a good one
		reason = native
	}
	if !slices.Contains([]string{"", "null", "none"}, strings.ToLower(reason)) { // Qwen's null
		u.End = &llm.End{Reason: reason, Detail: "finish_reason: " + reason}
	}
	if !llm.IsSet(usage) && (u.End != nil || len(choices) == 0) {
		usage = llm.UsageIn(e.Data)
	}
	if llm.IsSet(usage) {
		u.Usage = llm.CountsOf(usage, true)
	}
	return u, err
}

// read adds the pieces of a delta, or of a whole message.
func read(said llm.Members, u *llm.Update) error {
	for _, field := range reasoningFields {
		if !llm.IsSet(said[field]) {
			continue
		}
		thoughts, err := llm.Fragments(llm.Piece{Kind: events.PartReasoning, Fields: llm.Members{textField: llm.Quote(field)}}, said[field])
		if err == nil && slices.ContainsFunc(thoughts, func(p llm.Piece) bool { return p.Text != "" }) { // what is no text is none
			u.Pieces = append(u.Pieces, thoughts...)
			break
		}
	}
	text, failed := llm.Fragments(llm.Piece{Kind: events.PartText}, said["content"])
	refusal, err := llm.Fragments(llm.Piece{Kind: events.PartText, Refused: true}, said["refusal"])
	u.Pieces = slices.Concat(u.Pieces, text, refusal)
	var calls []llm.Members
	raw := said["tool_calls"]
	if bytes.HasPrefix(raw, []byte("{")) { // one call may stand in place of the list
		raw = slices.Concat([]byte("["), raw, []byte("]"))
	}
	err = cmp.Or(failed, err, llm.Decode(raw, &calls))
	if old := said["function_call"]; len(calls) == 0 && bytes.HasPrefix(old, []byte("{")) { // deprecated by OpenAI, and still sent by others
		calls = append(calls, llm.Members{"function": old})
	}
	for _, c := range calls {
		p, failed := call(c)
		u.Pieces, err = append(u.Pieces, p), cmp.Or(err, failed)
	}
	fields := llm.Members{} // the endpoint wants back texts, objects and lists that have no meaning here
	rest(said, fields, messagePrefix, messageFields)
	maps.DeleteFunc(fields, func(_ string, value json.RawMessage) bool {
		return !strings.ContainsRune(`{["`, rune(value[0])) || len(bytes.Trim(value, "[]{}\" \t\r\n")) == 0
	})
	if len(fields) > 0 {
		u.Pieces = append(u.Pieces, llm.Piece{Kind: events.PartReasoning, Fields: fields})
	}
	return err
}

func call(c llm.Members) (llm.Piece, error) {
	f, err := c.Object("function")
	fields := llm.Members{}
	rest(f, fields, functionPrefix, functionFields)
	rest(c, fields, "", callFields)
	if f == nil {
		f = c // some send no function
	}
	id := c.Label("id")
	p := llm.Piece{Kind: events.PartToolCall, ID: id, Index: c.Number("index"), Call: events.CallID(id), Tool: f.Label("name"), Fields: fields}
	if err == nil {
		p.Text, err = llm.ArgumentsOf(f["arguments"])
	}
	return p, err
}
