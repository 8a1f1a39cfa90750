package recording

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
)

// chat is a line with a whole conversation.
type chat struct {
	ID       identifier        `json:"id"`
	Messages []json.RawMessage `json:"messages"`
}

type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Thought    string          `json:"reasoning_content"`
	Reasoning  string          `json:"reasoning"`
	Refusal    string          `json:"refusal"`
	Calls      []chatCall      `json:"tool_calls"`
	LegacyCall *chatFunction   `json:"function_call"`
	CallID     *events.CallID  `json:"tool_call_id"`
	Name       string          `json:"name"`
}

type chatCall struct {
	ID       events.CallID `json:"id"`
	Function *chatFunction `json:"function"`
	Custom   *chatFunction `json:"custom"` // has text as its input instead of JSON
}

// chatFunction has a call's arguments: a string, as in the format, or an object, as some exporters write it.
type chatFunction struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Input     json.RawMessage `json:"input"`
}

func (f *file) addChat(line int, raw []byte) error {
	c, err := into[chat](raw)
	if err == nil && len(c.Messages) == 0 {
		err = errors.New("messages: empty")
	}
	if err != nil {
		return err
	}
	s := f.open(FormatChat, string(c.ID), line)
	for i, raw := range c.Messages {
		if err := s.addChatMessage(line, raw); err != nil {
			return fmt.Errorf("messages[%d]: %w", i, err)
		}
	}
	return nil
}

func (s *script) addChatMessage(line int, raw json.RawMessage) error {
	m, err := into[chatMessage](raw)
	if err != nil {
		return err
	}
	parts, err := content(m.Content, false)
	e := Entry{Line: line}
	switch m.Role {
	case "system", "developer":
		e.Kind, e.Message = EntrySystem, events.Message{Role: events.RoleSystem, Parts: parts}
	case "user":
		e.Kind, e.Message = EntryUser, events.Message{Role: events.RoleUser, Parts: parts}
	case "assistant":
		calls, wrong := m.calls()
		err = errors.Join(err, wrong)
		e.Kind, e.Reply = EntryReply, m.reply(parts, calls)
	case "tool", "function":
		e.Kind, e.Result.Tool = EntryResult, m.Name
		e.Result.Text, e.Result.Attachments = splitResult(parts)
		switch {
		case m.CallID != nil:
			e.Result.Call = *m.CallID
		case m.Role == "tool":
			return errors.New("no tool_call_id")
		default:
			s.resolve(&e.Result, func(c openCall) bool { return c.tool == m.Name })
			s.append(e)
			return err
		}
	default:
		return fmt.Errorf("unknown role %q", m.Role)
	}
	s.add(e)
	return err
}

// reply orders the parts: reasoning, content, refusal, calls.
func (m *chatMessage) reply(body, calls []events.Part) Reply {
	r := Reply{Stop: events.StopEnd}
	if thought := cmp.Or(m.Thought, m.Reasoning); thought != "" {
		r.Parts = append(r.Parts, events.Part{Kind: events.PartReasoning, Text: thought})
	}
	r.Parts = append(r.Parts, body...)
	if m.Refusal != "" {
		r.Parts = append(r.Parts, textPart(m.Refusal))
	}
	if len(calls) > 0 {
		r.Stop = events.StopToolUse
	}
	r.Parts = append(r.Parts, calls...)
	return r
}

// calls are tool_calls and the legacy function_call.
func (m *chatMessage) calls() ([]events.Part, error) {
	if m.LegacyCall != nil {
		m.Calls = append(m.Calls, chatCall{Function: m.LegacyCall})
	}
	var parts []events.Part
	for i, c := range m.Calls {
		f := cmp.Or(c.Function, c.Custom)
		if f == nil || f.Name == "" {
			return nil, fmt.Errorf("call %d: no name of a function", i)
		}
		parts = append(parts, events.Part{Kind: events.PartToolCall, Call: c.ID, Tool: f.Name, Args: argsOf(f.Arguments, f.Input)})
	}
	return parts, nil
}
