package llmtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// Anthropic is the dialect of Messages. Source: https://docs.anthropic.com/en/api/messages-streaming.
type Anthropic struct{}

// Stream implements [Wire]. Blocks stay open until the end, so that the fragments of parallel calls may alternate.
func (Anthropic) Stream(r Reply) (body, end string) {
	var b strings.Builder
	u := r.Usage
	b.WriteString(anthropicEvent("message_start", fmt.Sprintf(`"message":{"id":"m1","type":"message","role":"assistant","model":"model-1","content":[],"stop_reason":null,"stop_sequence":null,`+
		`"usage":{"input_tokens":%d,"cache_read_input_tokens":%d,"cache_creation_input_tokens":%d,"output_tokens":1}}`, u.Input, u.CacheRead, u.CacheWrite)))
	b.WriteString(anthropicEvent("ping", ""))
	blocks := map[string]int{}
	for _, c := range r.Chunks {
		block := fmt.Sprint(c.Kind, c.Index)
		index, open := blocks[block]
		if !open {
			index = len(blocks)
			blocks[block] = index
			b.WriteString(anthropicEvent("content_block_start", fmt.Sprintf(`"index":%d,"content_block":%s`, index, anthropicBlock(c))))
		}
		b.WriteString(anthropicEvent("content_block_delta", fmt.Sprintf(`"index":%d,"delta":%s`, index, anthropicDelta(c))))
	}
	for i := range len(blocks) {
		end += anthropicEvent("content_block_stop", fmt.Sprintf(`"index":%d`, i))
	}
	stop := map[events.StopReason]string{
		events.StopEnd: "end_turn", events.StopToolUse: "tool_use", events.StopOutputLimit: "max_tokens",
		events.StopContentFilter: "refusal", events.StopContextOverflow: "model_context_window_exceeded",
	}[r.Stop]
	end += anthropicEvent("message_delta", fmt.Sprintf(`"delta":{"stop_reason":%s,"stop_sequence":null},"usage":{"output_tokens":%d,"output_tokens_details":{"thinking_tokens":%d}}`,
		quote(stop), u.Output, u.Reasoning))
	return b.String(), end + anthropicEvent("message_stop", "")
}

func anthropicEvent(name, members string) string {
	if members != "" {
		members = "," + members
	}
	return "event: " + name + "\ndata: {\"type\":" + quote(name) + members + "}\n\n"
}

func anthropicBlock(c Chunk) string {
	switch c.Kind {
	case events.PartReasoning:
		return `{"type":"thinking","thinking":"","signature":""}`
	case events.PartToolCall:
		return fmt.Sprintf(`{"type":"tool_use","id":%s,"name":%s,"input":{}}`, quote(string(c.Call)), quote(c.Tool))
	case events.PartText, events.PartToolResult, events.PartAttachment:
	}
	return `{"type":"text","text":""}`
}

func anthropicDelta(c Chunk) string {
	switch c.Kind {
	case events.PartReasoning:
		return `{"type":"thinking_delta","thinking":` + quote(c.Text) + `}`
	case events.PartToolCall:
		return `{"type":"input_json_delta","partial_json":` + quote(c.Text) + `}`
	case events.PartText, events.PartToolResult, events.PartAttachment:
	}
	return `{"type":"text_delta","text":` + quote(c.Text) + `}`
}

// End implements [Wire].
func (Anthropic) End(reason string) string {
	return anthropicEvent("message_delta", `"delta":{"stop_reason":`+quote(reason)+`,"stop_sequence":null},"usage":{"output_tokens":1}`) + anthropicEvent("message_stop", "")
}

// Value implements [Wire].
func (Anthropic) Value(json string) string {
	return anthropicEvent("content_block_start", `"index":7,"content_block":{"type":"text","text":""}`) +
		anthropicEvent("content_block_delta", `"index":7,"delta":{"type":"text_delta","text":`+json+`}`)
}

// Whole implements [Wire].
func (Anthropic) Whole(r Reply) string {
	var blocks []string
	stop := "end_turn"
	for _, p := range r.Parts() {
		switch p.Kind {
		case events.PartText:
			blocks = append(blocks, `{"type":"text","text":`+quote(p.Text)+`}`)
		case events.PartReasoning:
			blocks = append(blocks, `{"type":"thinking","thinking":`+quote(p.Text)+`,"signature":"sig"}`)
		case events.PartToolCall:
			stop = "tool_use"
			blocks = append(blocks, fmt.Sprintf(`{"type":"tool_use","id":%s,"name":%s,"input":%s}`, quote(string(p.Call)), quote(p.Tool), p.Args))
		case events.PartToolResult, events.PartAttachment:
		}
	}
	return fmt.Sprintf(`{"id":"m1","type":"message","role":"assistant","model":"model-1","content":[%s],"stop_reason":%s,"usage":{"input_tokens":%d,"output_tokens":%d}}`,
		strings.Join(blocks, ","), quote(stop), r.Usage.Input, r.Usage.Output)
}

// Garbage implements [Wire].
func (Anthropic) Garbage() string {
	return "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"del\n\n"
}

// Failure implements [Wire].
func (Anthropic) Failure(e *llm.Error) (status int, body string) {
	f := map[llm.ErrorKind]struct {
		status int
		typ    string
		prefix string
	}{
		llm.KindRateLimit: {429, "rate_limit_error", ""},
		llm.KindServer:    {529, "overloaded_error", ""},
		llm.KindAuth:      {401, "authentication_error", ""},
		llm.KindRequest:   {400, "invalid_request_error", ""},
		llm.KindOverflow:  {400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum: "},
	}[e.Kind]
	return f.status, fmt.Sprintf(`{"type":"error","error":{"type":%s,"message":%s},"request_id":"r1"}`, quote(f.typ), quote(f.prefix+e.Message))
}

// FailureEvent implements [Wire].
func (Anthropic) FailureEvent(e *llm.Error) string {
	return anthropicEvent("error", `"error":{"type":"overloaded_error","message":`+quote(e.Message)+`}`)
}

// Key implements [Wire].
func (Anthropic) Key(r *http.Request) string { return r.Header.Get("X-Api-Key") }

type anthropicRequest struct {
	Model     string
	Stream    bool
	MaxTokens int64 `json:"max_tokens"`
	System    []anthropicContent
	Messages  []struct {
		Role    string
		Content []anthropicContent
	}
	ToolChoice json.RawMessage `json:"tool_choice"`
	Tools      []struct {
		Name, Description string
		InputSchema       json.RawMessage `json:"input_schema"`
	}
}

type anthropicContent struct {
	Type, Text, ID, Name      string
	Thinking, Signature, Data string
	Input                     json.RawMessage
	ToolUseID                 string `json:"tool_use_id"`
	IsError                   bool   `json:"is_error"`
	Content                   string // of a result
	Source                    struct {
		Type, Data, URL string
		MediaType       string `json:"media_type"`
	}
}

// Read implements [Wire].
func (Anthropic) Read(body []byte) (llm.Request, error) {
	var in anthropicRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return llm.Request{}, err
	}
	out := llm.Request{Model: in.Model, MaxOutputTokens: in.MaxTokens}
	if !in.Stream || in.Model == "" || in.MaxTokens < 1 || len(in.Messages) == 0 {
		return out, errors.New("want a model, a limit, messages and a stream")
	}
	out.ToolChoice.None = strings.Contains(string(in.ToolChoice), `"none"`)
	for _, t := range in.Tools {
		if err := checkTool(t.Name, t.InputSchema); err != nil {
			return out, err
		}
		out.Tools = append(out.Tools, llm.Tool{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema})
	}
	for _, s := range in.System {
		part, err := readAnthropic(s)
		if err != nil || part.Kind != events.PartText {
			return out, fmt.Errorf("system block %+v: %w", s, err)
		}
		out.Messages = append(out.Messages, events.Message{Role: events.RoleSystem, Parts: []events.Part{part}})
	}
	ids := callLedger{limit: 64}
	for i, m := range in.Messages {
		if want := []string{"user", "assistant"}[i%2]; m.Role != want {
			return out, fmt.Errorf("message %d: role %q, want %q", i, m.Role, want)
		}
		parts, err := readAnthropicMessage(m.Role, m.Content, &ids)
		if err != nil {
			return out, fmt.Errorf("message %d (%s): %w", i, m.Role, err)
		}
		out.Messages = append(out.Messages, events.Message{Role: events.Role(m.Role), Parts: parts})
	}
	return out, ids.checkComplete()
}

func readAnthropicMessage(role string, content []anthropicContent, ids *callLedger) ([]events.Part, error) {
	if len(content) == 0 {
		return nil, errors.New("no content")
	}
	if role == "assistant" && strings.HasSuffix(content[len(content)-1].Type, "thinking") {
		return nil, errors.New("thinking comes last")
	}
	var parts []events.Part
	for _, c := range content {
		part, err := readAnthropic(c)
		if err != nil {
			return nil, err
		}
		switch part.Kind {
		case events.PartToolCall:
			err = ids.call(c.ID)
		case events.PartToolResult:
			err = ids.resolve(c.ToolUseID)
		case events.PartReasoning:
			continue
		case events.PartText, events.PartAttachment:
			if role == "user" {
				err = ids.checkComplete()
			}
		}
		if err != nil {
			return nil, err
		}
		if (part.Kind == events.PartToolCall) != (role == "assistant") && part.Kind != events.PartText {
			return nil, fmt.Errorf("%s in a message of the %s", part.Kind, role)
		}
		parts = append(parts, part)
	}
	return parts, nil
}

var anthropicID = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

func readAnthropic(c anthropicContent) (events.Part, error) {
	part := events.Part{}
	var ok bool
	switch c.Type {
	case "text":
		part.Kind, part.Text = events.PartText, c.Text
		ok = strings.TrimSpace(c.Text) != ""
	case "tool_use":
		part = events.Part{Kind: events.PartToolCall, Call: events.CallID(c.ID), Tool: c.Name, Args: c.Input}
		var object map[string]json.RawMessage
		ok = json.Unmarshal(c.Input, &object) == nil && object != nil && anthropicID.MatchString(c.ID) && toolName.MatchString(c.Name)
	case "tool_result":
		part = events.Part{Kind: events.PartToolResult, Call: events.CallID(c.ToolUseID)}
		if c.IsError {
			part.Outcome = events.OutcomeFailure
		}
		part.Text = c.Content
		ok = strings.TrimSpace(c.Content) != ""
	case "thinking":
		part.Kind = events.PartReasoning
		ok = c.Signature != ""
	case "redacted_thinking":
		part.Kind = events.PartReasoning
		ok = c.Data != ""
	case "image", "document":
		part = events.Part{Kind: events.PartAttachment, MediaType: c.Source.MediaType, Text: c.Source.Data + c.Source.URL}
		ok = c.Source.Type == "base64" && anthropicMedia.MatchString(c.Source.MediaType) && c.Source.Data != "" ||
			c.Source.Type == "url" && strings.HasPrefix(c.Source.URL, "http")
	default:
		ok = false
	}
	if !ok {
		return part, fmt.Errorf("block %+v", c)
	}
	return part, nil
}

var anthropicMedia = regexp.MustCompile(`^(image/(jpeg|png|gif|webp)|application/pdf)$`)
