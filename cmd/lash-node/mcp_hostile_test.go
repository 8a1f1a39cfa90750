package main

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// hostileArgument is a value that a tool of the MCP server does not expect.
func hostileArgument(r *rand.Rand) any {
	return []any{
		nil, true, -1, 1 << 52, "", "s1", "a.b", "*", ">", "../x", "a b\x00", "\x1b[2J\u202e", strings.Repeat("x", 5000), strings.Repeat("é", 200<<10),
		[]any{},
		[]any{"s1", map[string]any{}},
		map[string]any{"a": map[string]any{"$ref": "#"}},
		map[string]any{strings.Repeat("k", 3000): "v"},
		json.RawMessage(strings.Repeat("[", 300) + strings.Repeat("]", 300)),
	}[r.IntN(19)]
}

// TestLongMCPHostileArguments calls every tool of the MCP server with arguments of every kind, also for what the tool does not have. Each
// call returns a result or a failure with a reason, none is a fault of the node, and the node serves afterwards.
func TestLongMCPHostileArguments(t *testing.T) {
	t.Parallel()
	n := serveModel(t, "", "--provider", "scripted", "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-tokens", tokenFile(t, "sesame"))
	defer n.stop(t, syscall.SIGTERM)
	a := startAgent(t, overHTTP(t, n.http, "sesame"))
	a.do("create_session", map[string]any{"id": "s1"}, nil)
	tools, err := a.c.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) < 9 {
		t.Fatalf("tools: got %+v, %v", tools, err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	results, failures := 0, 0
	for _, tool := range tools.Tools {
		schema, _ := tool.InputSchema.(map[string]any)
		properties, _ := schema["properties"].(map[string]any)
		names := append(slices.Sorted(maps.Keys(properties)), "nosuch")
		for range 40 {
			args := map[string]any{"wait_seconds": 0}
			if properties["session"] != nil {
				args["session"] = "s1"
			}
			if properties["wait_seconds"] == nil {
				delete(args, "wait_seconds")
			}
			for range 1 + r.IntN(3) {
				args[names[r.IntN(len(names))]] = hostileArgument(r)
			}
			answer, err := a.c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool.Name, Arguments: args})
			if err != nil { // an error of JSON-RPC has a reason, and the connection goes on
				failures++
				continue
			}
			text, _ := answer.Content[0].(*mcp.TextContent)
			switch {
			case !answer.IsError:
				results++
			case text == nil || text.Text == "" || strings.HasPrefix(text.Text, "internal") || strings.HasPrefix(text.Text, "status 5"):
				t.Errorf("%s: got %+v, want a reason that is not the node's", tool.Name, text)
			default:
				failures++
			}
		}
	}
	if results == 0 || failures == 0 {
		t.Errorf("got %d results and %d failures, want some of each", results, failures)
	}
	var turn struct{ Outcome struct{ Text string } }
	a.do("create_session", map[string]any{"id": "after"}, nil)
	a.do("run_turn", map[string]any{"session": "after", "turn": "t1", "text": "hi"}, &turn)
	if turn.Outcome.Text == "" {
		t.Errorf("a turn afterwards: got %+v, want its end", turn)
	}
}
