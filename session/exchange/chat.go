package exchange

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/lash-go/lash/events"
)

// Losses of chats.
const (
	lostBranches  = "messages outside of the active path"
	lostOutcome   = "results' outcomes: a failed, cancelled or lost call has its text only"
	lostCancelled = "results of cancelled calls whose tools returned none: there these are calls without a result"
	lostStop      = "why replies ended: aborted, failed, cut"
	lostUsage     = "models, providers and tokens of replies"
	lostOrder     = "the order of text, reasoning and calls in replies"
	lostMeta      = "providers' data of reasoning and calls, as signatures"
	lostNodes     = "nodes of plugins and protocols"
	lostEvents    = "turns, approvals, hooks, cancels and other events"
	lostTimes     = "times, and ids of messages"
	lostParts     = "attachments of results, or of replies, that the format has no form for"
)

// chatMessage is a message of OpenAI's chat format.
type chatMessage struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	Reasoning string          `json:"reasoning_content,omitempty"`
	Calls     []chatCall      `json:"tool_calls,omitempty"`
	CallID    *string         `json:"tool_call_id,omitempty"`
	Name      string          `json:"name,omitempty"`
}

type chatCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Chat writes the active path as one line of JSON, in OpenAI's chat format.
func Chat(w io.Writer, d *Document) (*Losses, error) {
	lost := &Losses{}
	messages := []chatMessage{}
	for i := range d.Entries {
		e := &d.Entries[i]
		switch {
		case e.Node != nil && !e.Active:
			lost.Add(lostBranches)
		case e.Node != nil && e.Node.Kind != events.NodeMessage:
			lost.Add(lostNodes)
		case e.Node != nil:
			messages = append(messages, chatOf(e, lost)...)
		case e.Reply != nil:
			messages = append(messages, chatMessage{Role: "assistant", Content: json.RawMessage("null")})
			lost.Add(lostStop)
		default:
			lost.Add(lostEvents)
		}
	}
	lost.AddN(lostTimes, len(messages))
	line, err := encode(struct {
		ID       events.SessionID `json:"id"`
		Messages []chatMessage    `json:"messages"`
	}{d.Session, messages})
	if err == nil {
		_, err = w.Write(line)
	}
	return lost, err
}

// encode is v as one line of JSON, with text as it is.
func encode(v any) ([]byte, error) {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return line.Bytes(), err
}

// chatOf are the messages of a node: several for results.
func chatOf(e *Entry, lost *Losses) []chatMessage {
	m := &e.Node.Message
	if m.Role == events.RoleAssistant {
		return []chatMessage{chatReply(e, lost)}
	}
	var list []chatMessage
	var rest []events.Part
	for i := range m.Parts {
		p := &m.Parts[i]
		switch {
		case isCancelledByRuntime(p):
			lost.Add(lostCancelled)
		case p.Kind == events.PartToolResult:
			if p.Outcome != events.OutcomeSuccess {
				lost.Add(lostOutcome)
			}
			id := string(p.Call)
			list = append(list, chatMessage{Role: "tool", CallID: &id, Name: p.Tool, Content: raw(p.Text)})
		case len(list) > 0: // of the result before
			last := &list[len(list)-1]
			last.Content = withPart(last.Content, p, lost)
		default:
			rest = append(rest, *p)
		}
	}
	if len(rest) > 0 || len(m.Parts) == 0 {
		list = append([]chatMessage{{Role: string(m.Role), Content: chatContent(rest, lost)}}, list...)
	}
	return list
}

func chatReply(e *Entry, lost *Losses) chatMessage {
	m := &e.Node.Message
	out := chatMessage{Role: "assistant", Content: json.RawMessage("null")}
	var content []events.Part
	var reasoning []string
	rank := 0
	for i := range m.Parts {
		p, at := &m.Parts[i], 1
		switch p.Kind {
		case events.PartReasoning:
			at = 0
			reasoning = append(reasoning, p.Text)
		case events.PartToolCall:
			at = 2
			out.Calls = append(out.Calls, chatCall{ID: string(p.Call), Type: "function", Function: chatFunction{p.Tool, string(p.Args)}})
		case events.PartText, events.PartAttachment, events.PartToolResult:
			content = append(content, *p)
		}
		if len(p.Meta) > 0 && p.Kind != events.PartAttachment {
			lost.Add(lostMeta)
		}
		if at < rank || at == 0 && len(reasoning) > 1 {
			lost.Add(lostOrder)
		}
		rank = max(rank, at)
	}
	out.Reasoning = strings.Join(reasoning, "\n")
	if len(content) > 0 {
		out.Content = chatContent(content, lost)
	}
	if r := e.Reply; r != nil {
		if r.Model != "" || r.Provider != "" || !r.Usage.IsZero() {
			lost.Add(lostUsage)
		}
		if r.Stop != events.StopEnd && r.Stop != events.StopToolUse {
			lost.Add(lostStop)
		}
	}
	return out
}

// chatContent is a string for one text, and a list of parts otherwise.
func chatContent(parts []events.Part, lost *Losses) json.RawMessage {
	if len(parts) == 0 {
		return raw("")
	}
	if len(parts) == 1 && parts[0].Kind == events.PartText && parts[0].Text != "" {
		return raw(parts[0].Text)
	}
	content := json.RawMessage("[]")
	for i := range parts {
		content = withPart(content, &parts[i], lost)
	}
	return content
}

// withPart adds a part to a content.
func withPart(content json.RawMessage, p *events.Part, lost *Losses) json.RawMessage {
	var list []json.RawMessage
	var text string
	if json.Unmarshal(content, &text) == nil {
		list = append(list, textPart(text))
	} else if err := json.Unmarshal(content, &list); err != nil {
		list = nil
	}
	switch {
	case p.Kind == events.PartText:
		list = append(list, textPart(p.Text))
	case p.Kind != events.PartAttachment:
		lost.Add(lostParts)
	case len(p.Meta) > 0 && json.Valid(p.Meta):
		list = append(list, p.Meta)
	case strings.HasPrefix(p.MediaType, "audio/"):
		list = append(list, raw(map[string]any{"type": "input_audio", "input_audio": map[string]string{"data": p.Text, "format": strings.TrimPrefix(p.MediaType, "audio/")}}))
	default:
		url := p.Text
		if p.MediaType != "image/*" {
			url = fmt.Sprintf("data:%s;base64,%s", p.MediaType, p.Text)
		}
		list = append(list, raw(map[string]any{"type": "image_url", "image_url": map[string]string{"url": url}}))
	}
	return raw(list)
}

func textPart(text string) json.RawMessage {
	return raw(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{"text", text})
}

// raw is a value without invalid parts as JSON.
func raw(v any) json.RawMessage {
	line, err := encode(v)
	if err != nil {
		panic("exchange: " + err.Error()) // values of this package encode
	}
	return bytes.TrimSpace(line)
}
