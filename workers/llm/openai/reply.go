package openai

import (
	"bytes"
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

// members are the members of a JSON object.
type members map[string]json.RawMessage

func (m members) label(name string) string {
	var l llm.Label
	if raw := m[name]; raw != nil {
		_ = l.UnmarshalJSON(raw)
	}
	return string(l)
}

// rest adds what m has beside known to out, under a prefix.
func (m members) rest(out map[string]json.RawMessage, prefix string, known []string) {
	for name, value := range m {
		if llm.IsSet(value) && !slices.Contains(known, name) {
			out[prefix+name] = value
		}
	}
}

// chunk is an event of a Chat Completions stream, or a whole reply.
type chunk struct {
	ID      llm.Label
	Model   llm.Label
	Object  llm.Label
	Choices []choice
	Usage   json.RawMessage
	Error   json.RawMessage
}

type choice struct {
	Index        llm.Number
	FinishReason llm.Label `json:"finish_reason"`
	Delta        members
	Message      members // of a whole reply
	Error        json.RawMessage
}

// decode reads an event of a Chat Completions stream.
func decode(e llm.ServerEvent) (u llm.Update, err error) {
	var c chunk
	malformed := llm.Decode(e.Data, &c)
	if e.Name == "error" || llm.IsSet(c.Error) || c.Object == "error" || malformed != nil || len(c.Choices) == 0 && !llm.IsSet(c.Usage) {
		if f, ok := llm.FailureIn(e); ok {
			return llm.Update{Failure: &f}, nil
		}
	}
	if malformed != nil {
		return u, malformed
	}
	u.Model, u.ID = string(c.Model), string(c.ID)
	ends := len(c.Choices) == 0
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // one choice is requested
		}
		if llm.IsSet(choice.Error) {
			if f, ok := llm.ParseFailure(choice.Error); ok {
				return llm.Update{Failure: &f}, nil
			}
		}
		said := choice.Delta
		if said == nil && choice.Message != nil {
			said, u.Whole = choice.Message, true
		}
		if err := read(said, &u); err != nil {
			return u, err
		}
		if reason := string(choice.FinishReason); reason != "" && reason != "null" { // Qwen's null
			u.End, ends = &llm.End{Reason: reason, Detail: "finish_reason: " + reason}, true
		}
	}
	if !llm.IsSet(c.Usage) && ends {
		c.Usage = llm.UsageIn(e.Data)
	}
	u.Usage = llm.CountsOf(c.Usage, true)
	return u, nil
}

// read adds the pieces of a delta, or of a whole message.
func read(said members, u *llm.Update) error {
	for _, field := range reasoningFields {
		if list := thought(field, said[field]); len(list) > 0 {
			u.Pieces = append(u.Pieces, list...)
			break
		}
	}
	text, refused, err := llm.Fragments(events.PartText, said["content"])
	if err != nil {
		return err
	}
	refusal, _, err := llm.Fragments(events.PartText, said["refusal"])
	if err != nil {
		return err
	}
	u.Pieces = append(append(u.Pieces, text...), refusal...)
	u.Refused = refused || slices.ContainsFunc(refusal, func(p llm.Piece) bool { return p.Text != "" })
	calls, err := callsOf(said)
	if err != nil {
		return err
	}
	for _, c := range calls {
		p, err := call(c)
		if err != nil {
			return err
		}
		u.Pieces = append(u.Pieces, p)
	}
	if fields := vendorOf(said); len(fields) > 0 {
		u.Pieces = append(u.Pieces, llm.Piece{Kind: events.PartReasoning, Fields: fields})
	}
	return nil
}

// thought is reasoning in a field of its own. What is no text in such a field is none.
func thought(field string, raw json.RawMessage) (list []llm.Piece) {
	if !llm.IsSet(raw) {
		return nil
	}
	pieces, _, err := llm.Fragments(events.PartReasoning, raw)
	if err != nil {
		return nil
	}
	for _, p := range pieces {
		if p.Text != "" {
			p.Fields = map[string]json.RawMessage{textField: llm.Quote(field)}
			list = append(list, p)
		}
	}
	return list
}

// vendorOf are the fields of the message that the endpoint wants back: texts, objects and lists that have no meaning here.
func vendorOf(said members) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	said.rest(out, messagePrefix, messageFields)
	maps.DeleteFunc(out, func(_ string, value json.RawMessage) bool {
		return !strings.ContainsRune(`{["`, rune(value[0])) || len(bytes.Trim(value, "[]{}\" \t\r\n")) == 0
	})
	return out
}

// callsOf are the calls of a delta. One call may stand in place of the list, and function_call is deprecated by OpenAI and still
// sent by others.
func callsOf(said members) (calls []members, err error) {
	raw := said["tool_calls"]
	switch {
	case !llm.IsSet(raw):
	case raw[0] == '{':
		var one members
		err = llm.Decode(raw, &one)
		calls = append(calls, one)
	default:
		err = llm.Decode(raw, &calls)
	}
	if old := said["function_call"]; llm.IsSet(old) {
		calls = append(calls, members{"function": old})
	}
	return calls, err
}

func call(c members) (llm.Piece, error) {
	f := c // some send no function
	fields := map[string]json.RawMessage{}
	if raw := c["function"]; llm.IsSet(raw) {
		f = nil
		if err := llm.Decode(raw, &f); err != nil {
			return llm.Piece{}, err
		}
		f.rest(fields, functionPrefix, functionFields)
	}
	c.rest(fields, "", callFields)
	args, err := llm.ArgumentsOf(f["arguments"])
	id := c.label("id")
	p := llm.Piece{Kind: events.PartToolCall, ID: id, Call: events.CallID(id), Tool: f.label("name"), Text: args}
	if len(fields) > 0 {
		p.Fields = fields
	}
	if raw := c["index"]; llm.IsSet(raw) {
		p.Index = new(llm.Number)
		_ = p.Index.UnmarshalJSON(raw)
	}
	return p, err
}

// giveBack adds vendor fields to a message that has none of their names, and to a call with its function.
func giveBack(fields map[string]json.RawMessage, message, call, function object) {
	for name, value := range fields {
		if field, ok := strings.CutPrefix(name, messagePrefix); ok {
			message[field] = value
		} else if field, ok := strings.CutPrefix(name, functionPrefix); ok && function != nil {
			function[field] = value
		} else if name != textField && call != nil {
			call[name] = value
		}
	}
}
