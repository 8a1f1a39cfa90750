package mcpapi_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestUnknownArgument calls each tool with an argument that it lacks. The failure lists those of the tool's schema.
func TestUnknownArgument(t *testing.T) {
	t.Parallel()
	c, ctx := connected(t, "http://127.0.0.1:1"), t.Context()
	list, err := c.ListTools(ctx, nil)
	if err != nil || len(list.Tools) < 9 {
		t.Fatalf("got %+v, %v, want the tools", list, err)
	}
	for _, tool := range list.Tools {
		schema, _ := tool.InputSchema.(map[string]any)
		properties, _ := schema["properties"].(map[string]any)
		r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: tool.Name, Arguments: map[string]any{"sesion": "s"}})
		if err != nil {
			t.Fatal(err)
		}
		text, _ := r.Content[0].(*mcp.TextContent)
		head, names, _ := strings.Cut(text.Text, ": known are ")
		got := strings.Split(names, ", ")
		if properties["session"] != nil && got[0] != "session" || !r.IsError || head != "sesion: is unknown" {
			t.Errorf("%s: got %q, want the similar name first", tool.Name, text.Text)
		}
		slices.Sort(got)
		if want := slices.Sorted(maps.Keys(properties)); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", tool.Name, got, want)
		}
	}
}
