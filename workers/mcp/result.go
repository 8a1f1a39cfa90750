package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

// callTool calls a tool of the server.
func callTool(ctx context.Context, client *mcp.ClientSession, name string, args json.RawMessage, progress string) (plugin.Result, error) {
	var raw *json.RawMessage
	err := rounds(ctx, func(answers mcp.InputResponseMap, state string) (*mcp.CallToolResult, error) {
		params := &mcp.CallToolParams{Name: name, Arguments: args, InputResponses: answers, RequestState: state}
		params.SetProgressToken(progress)
		once, into := whole(ctx)
		raw = into
		return client.CallTool(once, params)
	})
	if err != nil {
		return plugin.Result{}, err
	}
	return resultOf(*raw)
}

// resultOf is the result of a call, as the server sent it. Errors: a [*plugin.Failure] where the server says that it is one.
func resultOf(raw json.RawMessage) (plugin.Result, error) {
	var r struct {
		Content    json.RawMessage `json:"content"`
		ToolResult json.RawMessage `json:"toolResult"` // of the version 2024-10-07
		Structured json.RawMessage `json:"structuredContent"`
		IsError    json.RawMessage `json:"isError"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return plugin.Result{}, err
	}
	var b outcome
	if r.Content == nil {
		r.Content = r.ToolResult
	}
	b.parts(r.Content)
	switch {
	case !isNull(r.Structured):
		b.structured(r.Structured)
	case r.Content == nil:
		b.foreign(raw)
	}
	if strings.Trim(string(r.IsError), `"`) != "true" {
		return b.result(), nil
	}
	for i := range b.attachments { // a failure has a text alone
		b.line(fmt.Sprintf("[an attachment of type %q is not shown]", b.attachments[i].MediaType))
	}
	if text := strings.Join(b.texts, "\n"); strings.TrimSpace(text) != "" {
		return plugin.Result{}, failure(plugin.ClassExecution, text)
	}
	return plugin.Result{}, failure(plugin.ClassExecution, "the server reports an error, and says nothing of it")
}

// outcome collects the parts of a result.
type outcome struct {
	texts       []string
	attachments []events.Part
	bytes       int // of the attachments
	left        int // attachments that are left out, as there are too many
}

func (b *outcome) line(text string) { b.texts = append(b.texts, strings.ToValidUTF8(text, "\uFFFD")) }

// part is a part of a result, as a server may send it.
type part struct {
	Type        string    `json:"type"`
	Text        string    `json:"text"`
	Data        string    `json:"data"`
	MIMEType    string    `json:"mimeType"`
	URI         string    `json:"uri"`
	Name        string    `json:"name"`
	Description string    `json:"description"`
	Resource    *resource `json:"resource"`
}

// resource is a resource within a result.
type resource struct {
	URI      string `json:"uri"`
	MIMEType string `json:"mimeType"`
	Text     string `json:"text"`
	Blob     string `json:"blob"`
}

// parts adds a list of parts, or one that a server has without the list.
func (b *outcome) parts(content json.RawMessage) {
	var list []json.RawMessage
	if json.Unmarshal(content, &list) != nil && len(content) > 0 {
		list = []json.RawMessage{content}
	}
	for _, part := range list {
		b.part(part)
	}
}

// part adds a part. One that cannot be read becomes a text that says so: the others stay.
func (b *outcome) part(data json.RawMessage) {
	var p part
	if err := json.Unmarshal(data, &p); err != nil {
		var text string
		if json.Unmarshal(data, &text) != nil {
			b.unknown("that cannot be read", data)
			return
		}
		b.line(text)
		return
	}
	switch {
	case (p.Type == "image" || p.Type == "audio") && p.Data != "" && !strings.Contains(p.Data, "://"):
		b.encoded(p.MIMEType, p.Data)
	case p.Type == "resource_link":
		b.line(strings.TrimSpace(fmt.Sprintf("[resource %s] %s %s", p.URI, p.Name, p.Description)))
	case p.Type == "resource" && p.Resource != nil && p.Resource.Blob != "":
		b.line("[resource " + p.Resource.URI + "]")
		b.encoded(p.Resource.MIMEType, p.Resource.Blob)
	case p.Type == "resource" && p.Resource != nil:
		b.line("[resource " + p.Resource.URI + "]\n" + p.Resource.Text)
	case p.Type == "text", p.Text != "":
		b.line(p.Text)
	default:
		b.unknown(fmt.Sprintf("of type %q", events.Clip(p.Type, events.MaxTokenBytes, "...")), data)
	}
}

// unknown adds a part of which only the server knows what it means, as its JSON.
func (b *outcome) unknown(what string, data json.RawMessage) {
	if len(data) > maxUnknown {
		b.line(fmt.Sprintf("[a part %s is not shown: it has %d bytes]", what, len(data)))
		return
	}
	b.line(fmt.Sprintf("[a part %s: %s]", what, data))
}

// maxUnknown limits the JSON of such a part.
const maxUnknown = 4 << 10

// encoded adds bytes in base64, which may be a URL of data, wrapped, without padding, or of the alphabet of URLs, as an attachment, or a text.
// Those beyond the limits are named in the text.
func (b *outcome) encoded(mediaType, text string) {
	if head, rest, ok := strings.Cut(text, ";base64,"); ok && strings.HasPrefix(head, "data:") {
		text = rest
		if mediaType == "" {
			mediaType = strings.TrimPrefix(head, "data:")
		}
	}
	text = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(strings.Join(strings.Fields(text), "")), "=")
	data, err := base64.RawStdEncoding.DecodeString(text)
	switch {
	case err == nil && strings.HasPrefix(mediaType, "text/") && utf8.Valid(data):
		b.line(string(data))
		return
	case err != nil:
		b.line(fmt.Sprintf("[a part of type %q cannot be read: its data is no base64]", events.Clip(mediaType, events.MaxTokenBytes, "...")))
		return
	}
	if wire.CheckMediaType("mime_type", mediaType) != nil {
		mediaType = "application/octet-stream"
	}
	if len(b.attachments) >= wire.MaxAttachmentCount {
		b.left++
		return
	}
	if len(data) == 0 || len(data) > wire.MaxAttachment || b.bytes+len(data) > wire.MaxAttachments {
		b.line(fmt.Sprintf("[%d bytes of %s are left out: limit is %d, and %d for all]", len(data), mediaType, wire.MaxAttachment, wire.MaxAttachments))
		return
	}
	b.bytes += len(data)
	b.attachments = append(b.attachments, events.Part{Kind: events.PartAttachment, MediaType: mediaType, Text: base64.StdEncoding.EncodeToString(data)})
}

// structured adds the JSON of a structured result, unless the texts say the same.
func (b *outcome) structured(text json.RawMessage) {
	v, err := decodeExact(text)
	if err != nil || says(b.texts, v) {
		return
	}
	data, _ := json.Marshal(v) // each field once; it was JSON
	b.line(string(data))
}

// foreign adds the JSON of a result that has neither content nor a structured result, but other fields.
func (b *outcome) foreign(raw json.RawMessage) {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(raw, &fields) // it was one
	maps.DeleteFunc(fields, func(name string, _ json.RawMessage) bool {
		return slices.Contains([]string{"_meta", "isError", "resultType"}, name)
	})
	if len(fields) > 0 {
		b.structured(unescaped(fields))
	}
}

// wrappers are the names of a field that says nothing: libraries of servers put a result there that is no object.
var wrappers = []string{"result", "content", "text", "output", "value", "data"} //nolint:gochecknoglobals // a table

// says reports whether texts say the same as a value: one of them, or all together, is its JSON or the text that it is, or the JSON is
// all of it between brackets, as in a fence; or the value is a list of which that is so, or an object with one field of [wrappers].
func says(texts []string, v any) bool {
	if len(texts) == 0 {
		return false
	}
	for _, text := range append([]string{strings.Join(texts, "\n")}, texts...) {
		text = strings.TrimSpace(text)
		if s, ok := v.(string); ok && strings.TrimSpace(s) == text {
			return true
		}
		within := text[max(strings.IndexAny(text, "{["), 0):]
		for _, text := range []string{text, within[:strings.LastIndexAny(within, "}]")+1]} {
			if same, err := decodeExact([]byte(text)); err == nil && reflect.DeepEqual(same, v) {
				return true
			}
		}
	}
	switch v := v.(type) {
	case map[string]any:
		for name, only := range v {
			return len(v) == 1 && slices.Contains(wrappers, name) && says(texts, only)
		}
	case []any:
		if len(v) != len(texts) {
			return false
		}
		for i := range v {
			if !says(texts[i:i+1], v[i]) {
				return false
			}
		}
		return true
	}
	return false
}

func (b *outcome) result() plugin.Result {
	if b.left > 0 {
		b.line(fmt.Sprintf("[%d more attachments are left out: limit is %d]", b.left, wire.MaxAttachmentCount))
	}
	return plugin.Result{Text: strings.Join(b.texts, "\n"), Attachments: b.attachments}
}

// decodeExact decodes JSON, with the numbers as they are written: float64 does not have all digits.
func decodeExact(text []byte) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err = dec.Decode(&v); err == nil && dec.More() {
		err = errors.New("something follows the value")
	}
	return v, err
}
