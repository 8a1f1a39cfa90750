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
	read        func(context.Context, *mcp.ClientSession, json.RawMessage) (plugin.Result, error)
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
func (s *Server) readTools(has *mcp.ServerCapabilities, listed []*mcp.Tool) (list []tool) {
	var names []string
	if has.Resources != nil {
		names = append(names, "list_resources", "read_resource")
	}
	if has.Prompts != nil {
		names = append(names, "list_prompts", "get_prompt")
	}
	for _, name := range names {
		if r := readers()[name]; !slices.ContainsFunc(listed, func(t *mcp.Tool) bool { return t.Name == name }) {
			list = append(list, tool{
				Name: ToolName(s.Name, name), Of: name, Reads: true, Description: fmt.Sprintf(r.description, s.Name), Effects: events.EffectsNone,
				Schema: json.RawMessage(r.schema), TimeoutMS: s.Timeout.Milliseconds(),
			})
		}
	}
	return list
}

// asJSON is a value as the text of a result.
func asJSON(v any) (plugin.Result, error) {
	data, err := json.Marshal(v)
	return plugin.Result{Text: string(data)}, err
}

// reading are the arguments of the tools that read.
type reading struct {
	Cursor    string            `json:"cursor"`
	URI       string            `json:"uri"`
	Name      string            `json:"name"`
	Arguments map[string]string `json:"arguments"`
}

func listResources(ctx context.Context, client *mcp.ClientSession, args json.RawMessage) (plugin.Result, error) {
	var in reading
	if err := json.Unmarshal(args, &in); err != nil {
		return plugin.Result{}, err
	}
	page, err := client.ListResources(ctx, &mcp.ListResourcesParams{Cursor: in.Cursor})
	if err != nil {
		return plugin.Result{}, err
	}
	out := struct {
		Resources []*mcp.Resource         `json:"resources"`
		Templates []*mcp.ResourceTemplate `json:"resourceTemplates,omitempty"`
		Next      string                  `json:"nextCursor,omitempty"`
	}{Resources: page.Resources, Next: page.NextCursor}
	if in.Cursor == "" {
		if templates, err := client.ListResourceTemplates(ctx, nil); err == nil { // a server may have none
			out.Templates = templates.ResourceTemplates
		}
	}
	return asJSON(&out)
}

func readResource(ctx context.Context, client *mcp.ClientSession, args json.RawMessage) (plugin.Result, error) {
	var in reading
	if err := json.Unmarshal(args, &in); err != nil {
		return plugin.Result{}, err
	}
	r, err := client.ReadResource(ctx, &mcp.ReadResourceParams{URI: in.URI})
	if err != nil {
		return plugin.Result{}, err
	}
	var b outcome
	for _, c := range r.Contents {
		if c != nil {
			b.resource(&resource{URI: c.URI, MIMEType: c.MIMEType, Text: c.Text}, c.Blob)
		}
	}
	return b.result(), nil
}

func listPrompts(ctx context.Context, client *mcp.ClientSession, args json.RawMessage) (plugin.Result, error) {
	var in reading
	if err := json.Unmarshal(args, &in); err != nil {
		return plugin.Result{}, err
	}
	page, err := client.ListPrompts(ctx, &mcp.ListPromptsParams{Cursor: in.Cursor})
	if err != nil {
		return plugin.Result{}, err
	}
	return asJSON(&struct {
		Prompts []*mcp.Prompt `json:"prompts"`
		Next    string        `json:"nextCursor,omitempty"`
	}{page.Prompts, page.NextCursor})
}

func getPrompt(ctx context.Context, client *mcp.ClientSession, args json.RawMessage) (plugin.Result, error) {
	var in reading
	if err := json.Unmarshal(args, &in); err != nil {
		return plugin.Result{}, err
	}
	p, err := client.GetPrompt(ctx, &mcp.GetPromptParams{Name: in.Name, Arguments: in.Arguments})
	if err != nil {
		return plugin.Result{}, err
	}
	var b outcome
	if p.Description != "" {
		b.line(p.Description)
	}
	for _, m := range p.Messages {
		if m == nil {
			continue
		}
		b.line(fmt.Sprintf("%s:", strings.TrimSpace(string(m.Role))))
		if data, err := json.Marshal(m.Content); err == nil {
			b.part(data)
		}
	}
	return b.result(), nil
}
