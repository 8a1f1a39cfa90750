package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/wire"
)

// readTools are the tools that read the resources and prompts of a server which has such. A tool of the server replaces the one
// of its name.
func (s *Server) readTools(has *mcp.ServerCapabilities, listed []*mcp.Tool) (list []candidate) {
	add := func(name, description, schema string, call callFunc) {
		if slices.ContainsFunc(listed, func(t *mcp.Tool) bool { return t.Name == name }) {
			return
		}
		list = append(list, candidate{call: call, wire: wire.Tool{
			Name: ToolName(s.Name, name), Description: description, Effects: events.EffectsNone,
			Schema: json.RawMessage(schema), TimeoutMS: s.Timeout.Milliseconds(),
		}})
	}
	const page = `{"type":"object","properties":{"cursor":{"type":"string","description":"From the page before; the first page has none"}}}`
	if has.Resources != nil {
		add("list_resources", "Lists the resources of "+s.Name+", a page at a time, and the templates of their URIs.", page, listResources)
		add("read_resource", "Returns the content of a resource of "+s.Name+".",
			`{"type":"object","properties":{"uri":{"type":"string"}},"required":["uri"]}`, readResource)
	}
	if has.Prompts != nil {
		add("list_prompts", "Lists the prompts that "+s.Name+" has, a page at a time.", page, listPrompts)
		add("get_prompt", "Returns a prompt of "+s.Name+", with the arguments in it.",
			`{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object","additionalProperties":{"type":"string"}}},"required":["name"]}`, getPrompt)
	}
	return list
}

// asJSON is a value as the text of a result.
func asJSON(v any) (*wire.Outcome, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return &wire.Outcome{Text: string(data)}, nil
}

// listing are the arguments of the tools that list.
type listing struct {
	Cursor string `json:"cursor"`
}

func listResources(ctx context.Context, client *mcp.ClientSession, args json.RawMessage, _ string) (*wire.Outcome, error) {
	var in listing
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	page, err := fresh(ctx, func(ctx context.Context) (*mcp.ListResourcesResult, error) {
		return client.ListResources(ctx, &mcp.ListResourcesParams{Cursor: in.Cursor})
	})
	if err != nil {
		return nil, err
	}
	out := struct {
		Resources []*mcp.Resource         `json:"resources"`
		Templates []*mcp.ResourceTemplate `json:"resourceTemplates,omitempty"`
		Next      string                  `json:"nextCursor,omitempty"`
	}{Resources: page.Resources, Next: page.NextCursor}
	if in.Cursor == "" {
		templates, err := fresh(ctx, func(ctx context.Context) (*mcp.ListResourceTemplatesResult, error) {
			return client.ListResourceTemplates(ctx, nil)
		})
		if err == nil { // a server may have none
			out.Templates = templates.ResourceTemplates
		}
	}
	return asJSON(&out)
}

func readResource(ctx context.Context, client *mcp.ClientSession, args json.RawMessage, _ string) (*wire.Outcome, error) {
	var in struct {
		URI string `json:"uri"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	var r *mcp.ReadResourceResult
	err := rounds(ctx, func(answers mcp.InputResponseMap, state string) (asks mcp.InputRequestMap, next string, err error) {
		params := &mcp.ReadResourceParams{URI: in.URI, InputResponses: answers, RequestState: state}
		if r, err = fresh(ctx, func(ctx context.Context) (*mcp.ReadResourceResult, error) { return client.ReadResource(ctx, params) }); err != nil {
			return nil, "", err
		}
		return r.InputRequests, r.RequestState, nil
	})
	if err != nil {
		return nil, err
	}
	var b outcomes
	for _, c := range r.Contents {
		b.resource(c)
	}
	return b.outcome(), nil
}

func listPrompts(ctx context.Context, client *mcp.ClientSession, args json.RawMessage, _ string) (*wire.Outcome, error) {
	var in listing
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	page, err := fresh(ctx, func(ctx context.Context) (*mcp.ListPromptsResult, error) {
		return client.ListPrompts(ctx, &mcp.ListPromptsParams{Cursor: in.Cursor})
	})
	if err != nil {
		return nil, err
	}
	return asJSON(&struct {
		Prompts []*mcp.Prompt `json:"prompts"`
		Next    string        `json:"nextCursor,omitempty"`
	}{page.Prompts, page.NextCursor})
}

func getPrompt(ctx context.Context, client *mcp.ClientSession, args json.RawMessage, _ string) (*wire.Outcome, error) {
	var in struct {
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	var p *mcp.GetPromptResult
	err := rounds(ctx, func(answers mcp.InputResponseMap, state string) (asks mcp.InputRequestMap, next string, err error) {
		params := &mcp.GetPromptParams{Name: in.Name, Arguments: in.Arguments, InputResponses: answers, RequestState: state}
		if p, err = client.GetPrompt(ctx, params); err != nil {
			return nil, "", err
		}
		return p.InputRequests, p.RequestState, nil
	})
	if err != nil {
		return nil, err
	}
	var b outcomes
	if p.Description != "" {
		b.line(p.Description)
	}
	for _, m := range p.Messages {
		if m == nil {
			continue
		}
		b.line(fmt.Sprintf("%s:", strings.TrimSpace(string(m.Role))))
		b.content(m.Content)
	}
	return b.outcome(), nil
}
