package llmtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// OpenAIResponses is the dialect of the Responses API. Source:
// https://platform.openai.com/docs/api-reference/responses.
type OpenAIResponses struct{}

// Stream implements [Wire]. Items stay open until the end, so that the fragments of parallel calls may alternate.
func (OpenAIResponses) Stream(r Reply) (body, end string) {
	var s responseStream
	s.event("response.created", `"response":`+responseBody("in_progress", "", "null", "null"))
	s.event("response.in_progress", `"response":`+responseBody("in_progress", "", "null", "null"))
	var items []*responseItem
	for _, c := range r.Chunks {
		i := findItem(items, c)
		if i == nil {
			i = &responseItem{index: len(items), kind: c.Kind, call: c.Index, id: string(c.Call), tool: c.Tool}
			items = append(items, i)
			s.event("response.output_item.added", fmt.Sprintf(`"output_index":%d,"item":%s`, i.index, i.json("in_progress")))
			s.begin(i)
		}
		i.text.WriteString(c.Text)
		s.event(i.deltaName(), i.location()+`,"delta":`+quote(c.Text))
	}
	body = s.String()
	s.Reset()
	done := make([]string, len(items))
	for n, i := range items {
		done[n] = i.json("completed")
		s.event("response.output_item.done", fmt.Sprintf(`"output_index":%d,"item":%s`, i.index, done[n]))
	}
	name, status, details := "response.completed", "completed", "null"
	switch r.Stop {
	case events.StopOutputLimit:
		name, status, details = "response.incomplete", "incomplete", `{"reason":"max_output_tokens"}`
	case events.StopContentFilter:
		name, status, details = "response.incomplete", "incomplete", `{"reason":"content_filter"}`
	case events.StopEnd, events.StopToolUse, events.StopContextOverflow, events.StopProviderError, events.StopCancelled, events.StopUnknown:
	}
	u := r.Usage
	usage := fmt.Sprintf(`{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":%d},"total_tokens":%d}`,
		u.Input+u.CacheRead+u.CacheWrite, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning, u.Total())
	s.event(name, `"response":`+responseBody(status, strings.Join(done, ","), details, usage))
	return body, s.String()
}

// responseStream numbers the events of one reply.
type responseStream struct {
	strings.Builder
	n int
}

func (s *responseStream) event(name, members string) {
	_, _ = fmt.Fprintf(s, "event: %s\ndata: {\"type\":%s,\"sequence_number\":%d,%s}\n\n", name, quote(name), s.n, members)
	s.n++
}

// begin opens the only part of an item that has parts.
func (s *responseStream) begin(i *responseItem) {
	switch i.kind {
	case events.PartText:
		s.event("response.content_part.added", i.location()+`,"part":{"type":"output_text","text":"","annotations":[]}`)
	case events.PartReasoning:
		s.event("response.reasoning_summary_part.added", i.location()+`,"part":{"type":"summary_text","text":""}`)
	case events.PartToolCall, events.PartToolResult, events.PartAttachment:
	}
}

func responseBody(status, output, details, usage string) string {
	return fmt.Sprintf(`{"id":"resp_1","object":"response","created_at":1,"status":%s,"error":null,"incomplete_details":%s,"instructions":null,"model":"model-1","output":[%s],`+
		`"parallel_tool_calls":true,"store":false,"tool_choice":"auto","tools":[],"usage":%s}`, quote(status), details, output, usage)
}

// responseItem is an item of the output in the making.
type responseItem struct {
	index    int
	kind     events.PartKind
	call     int
	id, tool string
	text     strings.Builder
}

func findItem(items []*responseItem, c Chunk) *responseItem {
	for _, i := range items {
		if i.kind == c.Kind && (c.Kind != events.PartToolCall || i.call == c.Index) {
			return i
		}
	}
	return nil
}

func (i *responseItem) deltaName() string {
	switch i.kind {
	case events.PartReasoning:
		return "response.reasoning_summary_text.delta"
	case events.PartToolCall:
		return "response.function_call_arguments.delta"
	case events.PartText, events.PartToolResult, events.PartAttachment:
	}
	return "response.output_text.delta"
}

func (i *responseItem) location() string {
	at := map[events.PartKind]string{events.PartText: `,"content_index":0`, events.PartReasoning: `,"summary_index":0`}[i.kind]
	return fmt.Sprintf(`"item_id":"item_%d","output_index":%d%s`, i.index, i.index, at)
}

func (i *responseItem) json(status string) string {
	head := fmt.Sprintf(`{"id":"item_%d","status":%s,`, i.index, quote(status))
	switch i.kind {
	case events.PartReasoning:
		if status != "completed" {
			return head + `"type":"reasoning","summary":[]}`
		}
		return head + `"type":"reasoning","encrypted_content":"gAAAA","summary":[{"type":"summary_text","text":` + quote(i.text.String()) + `}]}`
	case events.PartToolCall:
		return head + fmt.Sprintf(`"type":"function_call","call_id":%s,"name":%s,"arguments":%s}`, quote(i.id), quote(i.tool), quote(i.text.String()))
	case events.PartText, events.PartToolResult, events.PartAttachment:
	}
	if status != "completed" {
		return head + `"type":"message","role":"assistant","content":[]}`
	}
	return head + `"type":"message","role":"assistant","content":[{"type":"output_text","text":` + quote(i.text.String()) + `,"annotations":[]}]}`
}

// End implements [Wire].
func (OpenAIResponses) End(reason string) string {
	var s responseStream
	if reason == "completed" {
		s.event("response.completed", `"response":`+responseBody("completed", "", "null", "null"))
	} else {
		s.event("response.incomplete", `"response":`+responseBody("incomplete", "", `{"reason":`+quote(reason)+`}`, "null"))
	}
	return s.String()
}

// Value implements [Wire].
func (OpenAIResponses) Value(json string) string {
	var s responseStream
	s.event("response.output_text.delta", `"item_id":"item_7","output_index":7,"content_index":0,"delta":`+json)
	return s.String()
}

// Whole implements [Wire].
func (OpenAIResponses) Whole(r Reply) string {
	var items []string
	for n, p := range r.Parts() {
		i := &responseItem{index: n, kind: p.Kind, id: string(p.Call), tool: p.Tool}
		i.text.WriteString(p.Text + string(p.Args))
		items = append(items, i.json("completed"))
	}
	return responseBody("completed", strings.Join(items, ","), "null", fmt.Sprintf(`{"input_tokens":%d,"output_tokens":%d}`, r.Usage.Input, r.Usage.Output))
}

// Garbage implements [Wire].
func (OpenAIResponses) Garbage() string {
	return "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"del\n\n"
}

// Failure implements [Wire].
func (OpenAIResponses) Failure(e *llm.Error) (status int, body string) { return OpenAI{}.Failure(e) }

// FailureEvent implements [Wire].
func (OpenAIResponses) FailureEvent(e *llm.Error) string {
	var s responseStream
	body := strings.Replace(responseBody("failed", "", "null", "null"), `"error":null`, `"error":{"code":"server_error","message":`+quote(e.Message)+`}`, 1)
	s.event("response.failed", `"response":`+body)
	return s.String()
}

// Key implements [Wire].
func (OpenAIResponses) Key(r *http.Request) string { return OpenAI{}.Key(r) }

// responsesRequest has the fields that adapters send; any other is refused.
type responsesRequest struct {
	Model           string
	Stream          bool
	Store           *bool
	MaxOutputTokens int64 `json:"max_output_tokens"`
	Temperature     *float64
	TopP            *float64 `json:"top_p"`
	Include         []string
	Reasoning       struct{ Effort string }
	Text            json.RawMessage
	ToolChoice      json.RawMessage `json:"tool_choice"`
	Input           []json.RawMessage
	Tools           []struct {
		Type, Name, Description string
		Parameters              json.RawMessage
		Strict                  *bool
	}
}

// Read implements [Wire].
func (OpenAIResponses) Read(body []byte) (llm.Request, error) {
	var in responsesRequest
	if err := strictly(body, &in); err != nil {
		return llm.Request{}, err
	}
	out := llm.Request{Model: in.Model, MaxOutputTokens: in.MaxOutputTokens}
	if !in.Stream || in.Store == nil || *in.Store || in.Model == "" || len(in.Input) == 0 {
		return out, errors.New("want a model, input and a stream that is not stored")
	}
	out.ToolChoice.None = strings.Contains(string(in.ToolChoice), `"none"`)
	for _, t := range in.Tools {
		if err := checkTool(t.Name, t.Parameters); err != nil || t.Type != "function" || t.Strict == nil {
			return out, fmt.Errorf("tool of type %q, which must say whether it is strict: %w", t.Type, err)
		}
		out.Tools = append(out.Tools, llm.Tool{Name: t.Name, Description: t.Description, InputSchema: t.Parameters})
	}
	ids := callLedger{limit: 64}
	reasoned := false
	for n, raw := range in.Input {
		m, err := readItem(raw, &ids)
		if err != nil {
			return out, fmt.Errorf("input %d: %w in %s", n, err, short(string(raw)))
		}
		if m.Role == events.RoleSystem && n > 0 {
			return out, fmt.Errorf("input %d: a system message that is not the first item", n)
		}
		if reasoned && m.Role != events.RoleAssistant {
			return out, fmt.Errorf("input %d: reasoning without the item that it led to", n)
		}
		reasoned = m.Parts[0].Kind == events.PartReasoning
		out.Messages = append(out.Messages, m)
	}
	if reasoned {
		return out, errors.New("reasoning comes last")
	}
	return out, ids.checkComplete()
}

// strictly decodes JSON and rejects fields that v does not have.
func strictly(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// readItem reads an item of the input as a message of its own.
func readItem(raw json.RawMessage, ids *callLedger) (events.Message, error) {
	var kind struct{ Type string }
	if err := json.Unmarshal(raw, &kind); err != nil {
		return events.Message{}, err
	}
	switch kind.Type {
	case "function_call":
		var c struct {
			Type, Name, Arguments string
			CallID                string `json:"call_id"`
		}
		if err := strictly(raw, &c); err != nil {
			return events.Message{}, err
		}
		if !toolName.MatchString(c.Name) || !json.Valid([]byte(c.Arguments)) {
			return events.Message{}, fmt.Errorf("call %+v", c)
		}
		part := events.Part{Kind: events.PartToolCall, Call: events.CallID(c.CallID), Tool: c.Name, Args: []byte(c.Arguments)}
		return events.Message{Role: events.RoleAssistant, Parts: []events.Part{part}}, ids.call(c.CallID)
	case "function_call_output":
		var c struct {
			Type   string
			CallID string `json:"call_id"`
			Output *string
		}
		if err := strictly(raw, &c); err != nil || c.Output == nil || strings.TrimSpace(*c.Output) == "" {
			return events.Message{}, errors.Join(err, errors.New("no output"))
		}
		part := events.Part{Kind: events.PartToolResult, Call: events.CallID(c.CallID), Text: *c.Output}
		return events.Message{Role: events.RoleUser, Parts: []events.Part{part}}, ids.resolve(c.CallID)
	case "reasoning":
		part, err := readReasoning(raw)
		return events.Message{Role: events.RoleAssistant, Parts: []events.Part{part}}, err
	}
	return readItemMessage(raw, ids)
}

func readReasoning(raw json.RawMessage) (events.Part, error) {
	var r struct {
		Type, ID         string
		EncryptedContent string `json:"encrypted_content"`
		Summary, Content []struct{ Type, Text string }
	}
	part := events.Part{Kind: events.PartReasoning}
	if err := strictly(raw, &r); err != nil || r.ID == "" || r.Summary == nil || r.EncryptedContent == "" && len(r.Content) == 0 {
		return part, errors.Join(err, errors.New("reasoning without id, summary or content: nothing is stored"))
	}
	for _, s := range append(r.Summary, r.Content...) {
		part.Text += s.Text
	}
	return part, nil
}

func readItemMessage(raw json.RawMessage, ids *callLedger) (events.Message, error) {
	var m struct {
		Type, Role, Phase string
		Content           json.RawMessage
	}
	if err := strictly(raw, &m); err != nil {
		return events.Message{}, err
	}
	out := events.Message{Role: events.Role(m.Role)}
	if m.Type != "" && m.Type != "message" || m.Role != "system" && m.Role != "user" && m.Role != "assistant" || m.Phase != "" && m.Role != "assistant" {
		return out, errors.New("an item of unknown type, role or phase")
	}
	if err := ids.checkComplete(); err != nil {
		return out, err
	}
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		out.Parts = []events.Part{{Kind: events.PartText, Text: text}}
		if strings.TrimSpace(text) == "" {
			return out, errors.New("empty content")
		}
		return out, nil
	}
	var list []inputContent
	if err := strictly(m.Content, &list); err != nil || m.Role == "assistant" || len(list) == 0 {
		return out, errors.Join(err, errors.New("content that is not the user's, or none"))
	}
	for _, c := range list {
		part, err := c.part()
		if err != nil {
			return out, err
		}
		out.Parts = append(out.Parts, part)
	}
	return out, nil
}

// inputContent is a part of an input message.
type inputContent struct {
	Type, Text, Detail, Filename string
	ImageURL                     string `json:"image_url"`
	FileData                     string `json:"file_data"`
	FileURL                      string `json:"file_url"`
}

func (c inputContent) part() (events.Part, error) {
	part := events.Part{Kind: events.PartAttachment}
	src := c.ImageURL + c.FileData + c.FileURL
	switch {
	case c.Type == "input_text" && strings.TrimSpace(c.Text) != "" && src == "":
		return events.Part{Kind: events.PartText, Text: c.Text}, nil
	case c.Type == "input_image" && imageURL.MatchString(c.ImageURL) && c.ImageURL == src && c.Detail == "auto":
	case c.Type == "input_file" && c.FileData == src && strings.HasPrefix(src, "data:") && c.Filename != "":
	case c.Type == "input_file" && c.FileURL == src && strings.HasPrefix(src, "http"):
	default:
		return part, fmt.Errorf("content part %+v", c)
	}
	media, data, ok := strings.Cut(strings.TrimPrefix(src, "data:"), ";base64,")
	if !ok {
		media, data = "", src
	}
	part.MediaType, part.Text = media, data
	return part, nil
}
