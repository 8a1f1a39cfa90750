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

// OpenAI is the dialect of Chat Completions. Source: https://platform.openai.com/docs/api-reference/chat.
type OpenAI struct{}

// Stream implements [Wire].
func (OpenAI) Stream(r Reply) (body, end string) {
	var b strings.Builder
	b.WriteString(openaiChunk(`{"role":"assistant","content":""}`, "null"))
	for _, c := range r.Chunks {
		b.WriteString(openaiChunk(openaiDelta(c), "null"))
	}
	stop := map[events.StopReason]string{
		events.StopEnd: "stop", events.StopToolUse: "tool_calls", events.StopOutputLimit: "length", events.StopContentFilter: "content_filter",
	}[r.Stop]
	u := r.Usage
	end = openaiChunk("{}", quote(stop)) +
		fmt.Sprintf(`data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"model-1","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,`+
			`"prompt_tokens_details":{"cached_tokens":%d},"completion_tokens_details":{"reasoning_tokens":%d}}}`+"\n\n",
			u.Input+u.CacheRead, u.Output, u.Total(), u.CacheRead, u.Reasoning) +
		"data: [DONE]\n\n"
	return b.String(), end
}

func openaiChunk(delta, finish string) string {
	return `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"model-1","choices":[{"index":0,"delta":` +
		delta + `,"finish_reason":` + finish + `}],"usage":null}` + "\n\n"
}

func openaiDelta(c Chunk) string {
	switch c.Kind {
	case events.PartReasoning:
		return `{"reasoning_content":` + quote(c.Text) + `}`
	case events.PartToolCall:
		head, name := "", ""
		if c.Tool != "" {
			head, name = `"id":`+quote(string(c.Call))+`,"type":"function",`, `"name":`+quote(c.Tool)+`,`
		}
		return fmt.Sprintf(`{"tool_calls":[{"index":%d,%s"function":{%s"arguments":%s}}]}`, c.Index, head, name, quote(c.Text))
	case events.PartText, events.PartToolResult, events.PartAttachment:
	}
	return `{"content":` + quote(c.Text) + `}`
}

// quote makes a JSON string and, unlike encoding/json, keeps bytes that are not UTF-8.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ':
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// End implements [Wire].
func (OpenAI) End(reason string) string { return openaiChunk("{}", quote(reason)) + "data: [DONE]\n\n" }

// Value implements [Wire].
func (OpenAI) Value(json string) string { return openaiChunk(`{"content":`+json+`}`, "null") }

// Whole implements [Wire].
func (OpenAI) Whole(r Reply) string {
	members, calls := []string{`"role":"assistant"`}, []string{}
	for _, p := range r.Parts() {
		switch p.Kind {
		case events.PartText:
			members = append(members, `"content":`+quote(p.Text))
		case events.PartReasoning:
			members = append(members, `"reasoning_content":`+quote(p.Text))
		case events.PartToolCall:
			calls = append(calls, fmt.Sprintf(`{"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}`, quote(string(p.Call)), quote(p.Tool), quote(string(p.Args))))
		case events.PartToolResult, events.PartAttachment:
		}
	}
	stop := "stop"
	if len(calls) > 0 {
		stop = "tool_calls"
		members = append(members, `"tool_calls":[`+strings.Join(calls, ",")+`]`)
	}
	return fmt.Sprintf(`{"id":"c1","object":"chat.completion","model":"model-1","choices":[{"index":0,"message":{%s},"finish_reason":%s}],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`,
		strings.Join(members, ","), quote(stop), r.Usage.Input, r.Usage.Output)
}

// Garbage implements [Wire].
func (OpenAI) Garbage() string { return `data: {"id":"c1","choices":[{"index":0,"del` + "\n\n" }

// Failure implements [Wire].
func (OpenAI) Failure(e *llm.Error) (status int, body string) {
	f := map[llm.ErrorKind]struct {
		status    int
		typ, code string
	}{
		llm.KindRateLimit: {429, "requests", "rate_limit_exceeded"},
		llm.KindServer:    {500, "server_error", ""},
		llm.KindAuth:      {401, "invalid_request_error", "invalid_api_key"},
		llm.KindRequest:   {400, "invalid_request_error", "invalid_value"},
		llm.KindOverflow:  {400, "invalid_request_error", "context_length_exceeded"},
	}[e.Kind]
	return f.status, fmt.Sprintf(`{"error":{"message":%s,"type":%s,"param":null,"code":%s}}`, quote(e.Message), quote(f.typ), quote(f.code))
}

// FailureEvent implements [Wire].
func (OpenAI) FailureEvent(e *llm.Error) string {
	return `data: {"error":{"message":` + quote(e.Message) + `,"type":"server_error","param":null,"code":null}}` + "\n\n"
}

// Key implements [Wire].
func (OpenAI) Key(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

type openaiRequest struct {
	Model         string
	Stream        bool
	MaxTokens     int64 `json:"max_tokens"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	ToolChoice json.RawMessage `json:"tool_choice"`
	Messages   []openaiMessage
	Tools      []struct {
		Type     string
		Function struct {
			Name, Description string
			Parameters        json.RawMessage
		}
	}
}

type openaiMessage struct {
	Role, Name string
	Content    json.RawMessage
	ToolCallID string `json:"tool_call_id"`
	ToolCalls  []struct {
		ID, Type string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

// Read implements [Wire].
func (OpenAI) Read(body []byte) (llm.Request, error) {
	var in openaiRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return llm.Request{}, err
	}
	out := llm.Request{Model: in.Model, MaxOutputTokens: in.MaxTokens}
	if !in.Stream || !in.StreamOptions.IncludeUsage || in.Model == "" || len(in.Messages) == 0 {
		return out, errors.New("want a model, messages and a stream with usage")
	}
	out.ToolChoice.None = strings.Contains(string(in.ToolChoice), `"none"`)
	for _, t := range in.Tools {
		if err := checkTool(t.Function.Name, t.Function.Parameters); err != nil || t.Type != "function" {
			return out, fmt.Errorf("tool of type %q: %w", t.Type, err)
		}
		out.Tools = append(out.Tools, llm.Tool{Name: t.Function.Name, Description: t.Function.Description, InputSchema: t.Function.Parameters})
	}
	ids := callLedger{limit: 40}
	last := ""
	for i, m := range in.Messages {
		if err := checkOrder(last, m.Role); err != nil {
			return out, fmt.Errorf("message %d: %w", i, err)
		}
		last = m.Role
		read, err := readOpenAI(m, &ids)
		if err != nil {
			return out, fmt.Errorf("message %d (%s): %w", i, m.Role, err)
		}
		out.Messages = append(out.Messages, read)
	}
	return out, ids.checkComplete()
}

// checkOrder refuses what templates of models refuse: a message after one of another role.
func checkOrder(last, role string) error {
	switch {
	case role == "system" && last != "", role == "user" && (last == "user" || last == "tool"), role == "assistant" && last != "user" && last != "tool":
		return fmt.Errorf("%s after %q", role, last)
	}
	return nil
}

func readOpenAI(m openaiMessage, ids *callLedger) (events.Message, error) {
	out := events.Message{Role: events.Role(m.Role)}
	if m.Role == "tool" {
		out.Role = events.RoleUser
		var text string
		err := json.Unmarshal(m.Content, &text)
		if strings.TrimSpace(text) == "" || m.Name == "" {
			err = errors.Join(err, errors.New("a blank result, or one without the tool's name"))
		}
		out.Parts = []events.Part{{Kind: events.PartToolResult, Call: events.CallID(m.ToolCallID), Text: text}}
		return out, errors.Join(err, ids.resolve(m.ToolCallID))
	}
	if err := ids.checkComplete(); err != nil {
		return out, err
	}
	if m.Role != "system" && m.Role != "user" && m.Role != "assistant" {
		return out, errors.New("unknown role")
	}
	parts, err := readOpenAIContent(m.Content)
	if err != nil {
		return out, err
	}
	out.Parts = parts
	for _, c := range m.ToolCalls {
		if c.Type != "function" || !toolName.MatchString(c.Function.Name) || !json.Valid([]byte(c.Function.Arguments)) {
			return out, fmt.Errorf("call %+v", c)
		}
		if err := ids.call(c.ID); err != nil {
			return out, err
		}
		out.Parts = append(out.Parts, events.Part{Kind: events.PartToolCall, Call: events.CallID(c.ID), Tool: c.Function.Name, Args: []byte(c.Function.Arguments)})
	}
	if len(out.Parts) == 0 || len(m.ToolCalls) > 0 && m.Role != "assistant" {
		return out, errors.New("neither content nor calls, or calls of someone else")
	}
	return out, nil
}

func readOpenAIContent(content json.RawMessage) ([]events.Part, error) {
	if len(content) == 0 {
		return nil, nil
	}
	var text string
	if json.Unmarshal(content, &text) == nil {
		if strings.TrimSpace(text) == "" {
			return nil, errors.New("empty content")
		}
		return []events.Part{{Kind: events.PartText, Text: text}}, nil
	}
	var list []struct {
		Type, Text string
		ImageURL   struct{ URL string } `json:"image_url"`
	}
	if err := json.Unmarshal(content, &list); err != nil {
		return nil, err
	}
	var parts []events.Part
	for _, c := range list {
		switch {
		case c.Type == "text" && strings.TrimSpace(c.Text) != "":
			parts = append(parts, events.Part{Kind: events.PartText, Text: c.Text})
		case c.Type == "image_url" && imageURL.MatchString(c.ImageURL.URL):
			media, data, ok := strings.Cut(strings.TrimPrefix(c.ImageURL.URL, "data:"), ";base64,")
			if !ok {
				media, data = "", c.ImageURL.URL
			}
			parts = append(parts, events.Part{Kind: events.PartAttachment, MediaType: media, Text: data})
		default:
			return nil, fmt.Errorf("content part %+v", c)
		}
	}
	return parts, nil
}

var (
	toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	imageURL = regexp.MustCompile(`^(https?://.+|data:image/[a-z+]+;base64,[A-Za-z0-9+/=]+)$`)
)

func checkTool(name string, schema json.RawMessage) error {
	var s struct {
		Type       string
		Properties map[string]json.RawMessage
	}
	if err := checkForm("schema", schema); err != nil {
		return fmt.Errorf("tool %q: %w", name, err)
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		return err
	}
	if !toolName.MatchString(name) || s.Type != "object" || s.Properties == nil {
		return fmt.Errorf("tool %q with schema %s", name, schema)
	}
	return nil
}
