package anthropic

import (
	"bytes"
	"cmp"
	"encoding/json"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// redactedField is the data of a reasoning part in place of a text that the API withholds.
const redactedField = "redacted"

// streamEvent has the fields of all events. Those of a text are raw where another field says whether it is one.
type streamEvent struct {
	Type         llm.Label
	Message      reply
	Index        llm.Number
	ContentBlock contentBlock `json:"content_block"`
	Delta        struct {
		Type        llm.Label
		Text        json.RawMessage
		Thinking    json.RawMessage
		PartialJSON json.RawMessage `json:"partial_json"`
		Signature   json.RawMessage
		StopReason  llm.Label `json:"stop_reason"`
		StopDetails struct {
			Explanation llm.Label
		} `json:"stop_details"`
	}
	Usage json.RawMessage
	Error json.RawMessage
}

// reply is the message of the first event, or a whole reply.
type reply struct {
	ID         llm.Label
	Model      llm.Label
	Content    json.RawMessage
	StopReason llm.Label `json:"stop_reason"`
	Usage      json.RawMessage
}

type contentBlock struct {
	Type      llm.Label
	Text      json.RawMessage
	Thinking  json.RawMessage
	Signature json.RawMessage
	Data      llm.Label
	ID        llm.Label
	Name      llm.Label
	Input     json.RawMessage
}

// decode reads an event of a stream, or a whole message. An event without a type has its name.
func decode(e llm.ServerEvent) (u llm.Update, err error) {
	var ev streamEvent
	malformed := llm.Decode(e.Data, &ev)
	name := cmp.Or(string(ev.Type), e.Name)
	if name == "" || name == "error" || e.Name == "error" || llm.IsSet(ev.Error) {
		if f, ok := llm.FailureIn(llm.ServerEvent{Name: name, Data: e.Data}); ok || e.Name == "error" {
			return llm.Update{Failure: &f}, nil
		}
	}
	switch name {
	case "":
		err = llm.Malformed("an event without a type")
	case "message":
		return whole(e.Data)
	case "message_start":
		u.Model, u.ID, u.Usage = string(ev.Message.Model), string(ev.Message.ID), llm.CountsOf(ev.Message.Usage, false)
	case "content_block_start":
		u.Pieces, err = begin(ev.ContentBlock, &ev.Index)
	case "content_block_delta":
		u.Pieces, err = delta(ev)
	case "message_delta":
		u.Usage = llm.CountsOf(ev.Usage, false)
		u.End = end(ev.Delta.StopReason, ev.Delta.StopDetails.Explanation)
	case "message_stop":
		u.Done, u.End, u.Usage = true, &llm.End{Detail: "no stop_reason"}, llm.CountsOf(llm.UsageIn(e.Data), false)
	default: // ping, content_block_stop and what the API may add, with any fields
		if ev.Type != "" {
			return llm.UnknownEvent(e), nil
		}
	}
	return u, cmp.Or(malformed, err)
}

// end is nil without a reason.
func end(reason, explanation llm.Label) *llm.End {
	if reason == "" {
		return nil
	}
	return &llm.End{Reason: string(reason), Detail: "stop_reason: " + string(reason) + " " + string(explanation)}
}

// whole is the message of an endpoint that does not stream.
func whole(data []byte) (u llm.Update, err error) {
	var r reply
	if err := llm.Decode(data, &r); err != nil {
		return u, err
	}
	u.Model, u.ID, u.Usage, u.End = string(r.Model), string(r.ID), llm.CountsOf(r.Usage, false), end(r.StopReason, "")
	var blocks []contentBlock
	if text := bytes.TrimLeft(r.Content, " \t\r\n"); !bytes.HasPrefix(text, []byte("[")) {
		blocks = []contentBlock{{Type: "text", Text: text}}
	} else if err := llm.Decode(text, &blocks); err != nil {
		return u, err
	}
	for i, block := range blocks {
		at := llm.Number(i)
		pieces, err := begin(block, &at)
		if err != nil {
			return u, err
		}
		u.Pieces = append(u.Pieces, pieces...)
	}
	return u, nil
}

// begin begins a block. Those of server tools are left out.
func begin(c contentBlock, index *llm.Number) ([]llm.Piece, error) {
	p := llm.Piece{Begin: true, Index: index}
	var err error
	switch c.Type {
	case "text":
		p.Kind = events.PartText
		return said(p, c.Text)
	case "thinking":
		p.Kind, p.Fields = events.PartReasoning, unsigned
		if p.Signature, err = llm.TextOf(c.Signature); err != nil {
			return nil, err
		}
		return said(p, c.Thinking)
	case "redacted_thinking":
		p.Kind, p.Fields = events.PartReasoning, map[string]json.RawMessage{redactedField: llm.Quote(string(c.Data))}
	case "tool_use": // some endpoints do not stream the input
		p.Kind, p.Call, p.Tool, p.Whole = events.PartToolCall, events.CallID(c.ID), string(c.Name), true
		p.Text, err = llm.ArgumentsOf(c.Input)
	}
	return []llm.Piece{p}, err
}

// unsigned marks thinking, which some endpoints send without a signature and want back.
var unsigned = map[string]json.RawMessage{llm.SignatureField: llm.Quote("")} //nolint:gochecknoglobals // a table that is only read

// delta are the pieces of a delta; there are none in citations and in what the API may add.
func delta(ev streamEvent) (list []llm.Piece, err error) {
	p := llm.Piece{Index: &ev.Index}
	d := ev.Delta
	switch cmp.Or(d.Type, typeOf(d.Text, "text_delta"), typeOf(d.Thinking, "thinking_delta"), typeOf(d.PartialJSON, "input_json_delta")) {
	case "text_delta":
		p.Kind = events.PartText
		return said(p, d.Text)
	case "thinking_delta":
		p.Kind = events.PartReasoning
		if list, err = said(p, d.Thinking); list[0].Text != "" {
			list[0].Fields = unsigned
		}
		return list, err
	case "signature_delta":
		p.Kind = events.PartReasoning
		p.Signature, err = llm.TextOf(d.Signature)
	case "input_json_delta":
		p.Kind = events.PartToolCall
		p.Text, err = llm.ArgumentsOf(d.PartialJSON)
	default:
		return nil, nil
	}
	return []llm.Piece{p}, err
}

// typeOf is the type of a delta that has a member and no type.
func typeOf(member json.RawMessage, name llm.Label) llm.Label {
	if llm.IsSet(member) {
		return name
	}
	return ""
}

// said is p with a text, and pieces of other kinds that stand in it.
func said(p llm.Piece, text json.RawMessage) ([]llm.Piece, error) {
	pieces, _, err := llm.Fragments(p.Kind, text)
	list := []llm.Piece{p}
	for _, one := range pieces {
		if one.Kind == p.Kind {
			list[0].Text += one.Text
		} else {
			list = append(list, one)
		}
	}
	return list, err
}
