package recording

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
)

// addChat reads a line with a whole chat.
func (f *file) addChat(line int, o object) error {
	id, err := o.identifier("id")
	if err != nil {
		return err
	}
	all, err := o.list("messages")
	if err != nil || all == nil {
		return errors.New("messages: not an array")
	}
	if len(all) == 0 {
		return errors.New("messages: empty")
	}
	s := f.open(FormatChat, id, line)
	for i, raw := range all {
		if err := s.addChatMessage(line, raw); err != nil {
			return fmt.Errorf("messages[%d]: %w", i, err)
		}
	}
	return nil
}

func (s *script) addChatMessage(line int, raw json.RawMessage) error {
	o, err := parseObject(raw)
	if err != nil {
		return err
	}
	role, err := o.must("role")
	if err != nil {
		return err
	}
	e := Entry{Line: line}
	switch role {
	case "system", "developer":
		e.Kind = EntrySystem
		e.Message, err = chatMessage(o, events.RoleSystem)
	case "user":
		e.Kind = EntryUser
		e.Message, err = chatMessage(o, events.RoleUser)
	case "assistant":
		e.Kind = EntryReply
		e.Reply, err = chatReply(o)
	case "tool":
		e.Kind = EntryResult
		e.Result, err = chatToolResult(o)
	case "function":
		e.Kind = EntryResult
		e.Result, err = chatFunctionResult(o)
	default:
		err = fmt.Errorf("unknown role %q", role)
	}
	if err != nil {
		return err
	}
	s.add(e, role == "function")
	return nil
}

func chatMessage(o object, role events.Role) (events.Message, error) {
	parts, err := content(o, chatPart)
	return events.Message{Role: role, Parts: parts}, err
}

// chatReply orders the parts: reasoning, content, refusal, calls.
func chatReply(o object) (Reply, error) {
	f := fields{o: o}
	reasoning, refusal := f.text("reasoning_content"), f.text("refusal")
	if other := f.text("reasoning"); reasoning == "" {
		reasoning = other
	}
	body, err := content(o, chatPart)
	f.setError(err)
	calls, err := chatCalls(o)
	f.setError(err)
	if f.err != nil {
		return Reply{}, f.err
	}
	r := Reply{Stop: events.StopEnd}
	if reasoning != "" {
		r.Parts = append(r.Parts, events.Part{Kind: events.PartReasoning, Text: reasoning})
	}
	r.Parts = append(r.Parts, body...)
	if refusal != "" {
		r.Parts = append(r.Parts, textPart(refusal))
	}
	if len(calls) > 0 {
		r.Stop = events.StopToolUse
	}
	r.Parts = append(r.Parts, calls...)
	return r, nil
}

// chatCalls reads tool_calls and the legacy function_call.
func chatCalls(o object) ([]events.Part, error) {
	all, err := o.list("tool_calls")
	if err != nil {
		return nil, err
	}
	var parts []events.Part
	for i, raw := range all {
		p, err := chatCall(raw)
		if err != nil {
			return nil, fmt.Errorf("tool_calls[%d]: %w", i, err)
		}
		parts = append(parts, p)
	}
	legacy, err := o.object("function_call")
	if err != nil || legacy == nil {
		return parts, err
	}
	p, err := chatFunction(legacy, "arguments")
	if err != nil {
		return nil, fmt.Errorf("function_call: %w", err)
	}
	return append(parts, p), nil
}

func chatCall(raw json.RawMessage) (events.Part, error) {
	o, err := parseObject(raw)
	if err != nil {
		return events.Part{}, err
	}
	id, _, err := o.str("id")
	if err != nil {
		return events.Part{}, err
	}
	kind, _, err := o.str("type")
	if err != nil {
		return events.Part{}, err
	}
	at, args := "function", "arguments"
	if kind == "custom" { // text input instead of JSON
		at, args = "custom", "input"
	}
	inner, err := o.object(at)
	if err != nil {
		return events.Part{}, err
	}
	if inner == nil {
		return events.Part{}, fmt.Errorf("no %s", at)
	}
	p, err := chatFunction(inner, args)
	p.Call = events.CallID(id)
	return p, err
}

// chatFunction reads the name of a call and its arguments: a string, as in the format, whose bytes stay, or an
// object, as some exporters write it.
func chatFunction(o object, args string) (events.Part, error) {
	name, err := o.must("name")
	if err != nil {
		return events.Part{}, err
	}
	p := events.Part{Kind: events.PartToolCall, Tool: name}
	if kindOf(o[args]) == '{' {
		p.Args = compact(o[args])
		return p, nil
	}
	text, _, err := o.str(args)
	p.Args = bytesOf(text)
	return p, err
}

func chatToolResult(o object) (Result, error) {
	id, err := o.must("tool_call_id")
	if err != nil {
		return Result{}, err
	}
	name, _, err := o.str("name")
	if err != nil {
		return Result{}, err
	}
	return chatResult(o, Result{Call: events.CallID(id), Tool: name})
}

func chatFunctionResult(o object) (Result, error) {
	name, err := o.must("name")
	if err != nil {
		return Result{}, err
	}
	return chatResult(o, Result{Tool: name})
}

func chatResult(o object, r Result) (Result, error) {
	parts, err := content(o, chatPart)
	r.Text, r.Attachments = splitResult(parts)
	return r, err
}
