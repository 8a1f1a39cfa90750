package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

// callOf calls a tool of the server.
func callOf(name string) callFunc {
	return func(ctx context.Context, client *mcp.ClientSession, args json.RawMessage, progress string) (*wire.Outcome, error) {
		var r *mcp.CallToolResult
		err := rounds(ctx, func(answers mcp.InputResponseMap, state string) (asks mcp.InputRequestMap, next string, err error) {
			params := &mcp.CallToolParams{Name: name, Arguments: args, InputResponses: answers, RequestState: state}
			params.SetProgressToken(progress)
			if r, err = client.CallTool(ctx, params); err != nil {
				return nil, "", err
			}
			return r.InputRequests, r.RequestState, nil
		})
		if err != nil {
			return nil, err
		}
		return resultOf(r), nil
	}
}

// resultOf is a result as the outcome of a call.
func resultOf(r *mcp.CallToolResult) *wire.Outcome {
	var b outcomes
	for _, c := range r.Content {
		b.content(c)
	}
	if r.StructuredContent != nil {
		text, _ := r.Meta[exactKey].(string)
		b.structured(r.StructuredContent, text)
	}
	if r.IsError {
		return failure(plugin.ClassExecution, strings.Join(b.texts, "\n"))
	}
	return b.outcome()
}

func failure(class, message string) *wire.Outcome {
	message = strings.ToValidUTF8(message, "\uFFFD")
	return &wire.Outcome{Failure: &wire.Failure{Class: class, Message: events.Clip(message, wire.MaxFailureMessage-4, "...")}}
}

// outcomes collects the parts of a result.
type outcomes struct {
	texts       []string
	attachments []wire.Attachment
	bytes       int // of the attachments
	left        int // attachments that are left out, as there are too many
}

func (b *outcomes) line(text string) { b.texts = append(b.texts, strings.ToValidUTF8(text, "\uFFFD")) }

func (b *outcomes) content(c mcp.Content) {
	switch c := c.(type) {
	case *mcp.TextContent:
		b.line(c.Text)
	case *mcp.ImageContent:
		b.attach(c.MIMEType, c.Data)
	case *mcp.AudioContent:
		b.attach(c.MIMEType, c.Data)
	case *mcp.ResourceLink:
		b.line(strings.TrimSpace(fmt.Sprintf("[resource %s] %s %s", c.URI, c.Name, c.Description)))
	case *mcp.EmbeddedResource:
		b.resource(c.Resource)
	default:
		b.line(fmt.Sprintf("[a part of type %T is not shown]", c))
	}
}

func (b *outcomes) resource(r *mcp.ResourceContents) {
	switch {
	case r == nil:
	case len(r.Blob) > 0:
		b.line("[resource " + r.URI + "]")
		b.attach(r.MIMEType, r.Blob)
	default:
		b.line("[resource " + r.URI + "]\n" + r.Text)
	}
}

// attach adds bytes as an attachment. Those beyond the limits are named in the text.
func (b *outcomes) attach(mediaType string, data []byte) {
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
	b.attachments = append(b.attachments, wire.Attachment{MediaType: mediaType, Data: data})
}

// structured adds the JSON of a structured result, unless a text is the same JSON. exact is that JSON with all digits, if it is the same value.
func (b *outcomes) structured(v any, exact string) {
	data, err := json.Marshal(v)
	if err != nil {
		return // it was JSON
	}
	for _, text := range b.texts {
		var same any
		if json.Unmarshal([]byte(text), &same) != nil {
			continue
		}
		if again, _ := json.Marshal(same); bytes.Equal(again, data) {
			return
		}
	}
	b.line(cmp.Or(exactText(exact, data), string(data)))
}

func (b *outcomes) outcome() *wire.Outcome {
	if b.left > 0 {
		b.line(fmt.Sprintf("[%d more attachments are left out: limit is %d]", b.left, wire.MaxAttachmentCount))
	}
	return &wire.Outcome{Text: strings.Join(b.texts, "\n"), Attachments: b.attachments}
}
