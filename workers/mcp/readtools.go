package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

// reader is a tool that reads the resources or the prompts of a server.
type reader struct {
	description string // of the server that %s names
	schema      string
	read        func(context.Context, *mcp.ClientSession, reading, *outcome) error
}

// reading are the arguments of the tools that read.
type reading struct {
	Cursor    string            `json:"cursor"`
	URI       string            `json:"uri"`
	Name      string            `json:"name"`
	Arguments map[string]string `json:"arguments"`
}

// readers are the tools that read, by the name after that of the server.
func readers() map[string]reader {
	const page = `{"type":"object","properties":{"cursor":{"type":"string","description":"From the page before; the first page has none"}}}`
	return map[string]reader{
		"list_resources": {"Lists the resources of %s, a page at a time, and the templates of their URIs.", page, listResources},
		"read_resource":  {"Returns the content of a resource of %s.", `{"type":"object","properties":{"uri":{"type":"string"}},"required":["uri"]}`, readResource},
		"list_prompts":   {"Lists the prompts that %s has, a page at a time.", page, listPrompts},
		"get_prompt": {
			"Returns a prompt of %s, with the arguments in it.",
			`{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object","additionalProperties":{"type":"string"}}},"required":["name"]}`, getPrompt,
		},
	}
}

// readTools are the tools that read the resources and prompts of a server which has such. A tool of the server replaces the one
// of its name.
func (s *Server) readTools(has *mcp.ServerCapabilities, all []listed) (list []tool) {
	var names []string
	if has.Resources != nil {
		names = append(names, "list_resources", "read_resource")
	}
	if has.Prompts != nil {
		names = append(names, "list_prompts", "get_prompt")
	}
	for _, name := range names {
		if r := readers()[name]; !slices.ContainsFunc(all, func(t listed) bool { return t.Name == name }) {
			list = append(list, tool{
				Name: ToolName(s.Name, name), Of: name, Reads: true, Description: fmt.Sprintf(r.description, s.Name), Effects: events.EffectsNone,
				Schema: json.RawMessage(r.schema), TimeoutMS: s.Timeout.Milliseconds(),
			})
		}
	}
	return list
}

// run performs a call.
func (r *reader) run(ctx context.Context, client *mcp.ClientSession, args json.RawMessage) (plugin.Result, error) {
	var in reading
	var b outcome
	err := json.Unmarshal(args, &in)
	if err == nil {
		err = r.read(ctx, client, in, &b)
	}
	if err != nil {
		return plugin.Result{}, err
	}
	return b.result(), nil
}

// asked performs a request, and reads its result, as the server sent it, into a value.
func asked[Params, Result any](ctx context.Context, request func(context.Context, Params) (Result, error), params Params, into any) error {
	once, raw := whole(ctx)
	if _, err := request(once, params); err != nil {
		return err
	}
	return json.Unmarshal(*raw, into)
}

// page is a part of a list.
type page struct {
	Resources json.RawMessage `json:"resources,omitempty"`
	Templates json.RawMessage `json:"resourceTemplates,omitempty"`
	Prompts   json.RawMessage `json:"prompts,omitempty"`
	Next      json.RawMessage `json:"nextCursor,omitempty"`
}

func listResources(ctx context.Context, client *mcp.ClientSession, in reading, b *outcome) error {
	var p, more page
	err := asked(ctx, client.ListResources, &mcp.ListResourcesParams{Cursor: in.Cursor}, &p)
	if in.Cursor == "" && err == nil && asked(ctx, client.ListResourceTemplates, nil, &more) == nil { // a server may have none
		p.Templates = more.Templates
	}
	b.line(string(unescaped(p)))
	return err
}

func listPrompts(ctx context.Context, client *mcp.ClientSession, in reading, b *outcome) error {
	var p page
	err := asked(ctx, client.ListPrompts, &mcp.ListPromptsParams{Cursor: in.Cursor}, &p)
	b.line(string(unescaped(p)))
	return err
}

func readResource(ctx context.Context, client *mcp.ClientSession, in reading, b *outcome) error {
	var r struct{ Contents []json.RawMessage }
	err := asked(ctx, client.ReadResource, &mcp.ReadResourceParams{URI: in.URI}, &r)
	for _, content := range r.Contents {
		b.part(unescaped(map[string]any{"type": "resource", "resource": content}))
	}
	return err
}

func getPrompt(ctx context.Context, client *mcp.ClientSession, in reading, b *outcome) error {
	var p struct {
		Description string
		Messages    []struct {
			Role    string
			Content json.RawMessage
		}
	}
	err := asked(ctx, client.GetPrompt, &mcp.GetPromptParams{Name: in.Name, Arguments: in.Arguments}, &p)
	if p.Description != "" {
		b.line(p.Description)
	}
	for _, m := range p.Messages {
		b.line(strings.TrimSpace(m.Role) + ":")
		b.parts(m.Content)
	}
	return err
}
