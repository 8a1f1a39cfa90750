package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/bus/busembed"
)

// mcpNotes is the command mcp-notes: a server of the Model Context Protocol.
func mcpNotes() {
	s := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "note"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "noted"}}}, nil, nil
	})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestPluginRunMCP runs a server with the credentials of a plugin. SIGTERM ends it with 0, also before a node runs.
func TestPluginRunMCP(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, plugins, servers := filepath.Join(dir, "st"), filepath.Join(dir, "plugins.json"), filepath.Join(dir, "mcp.json")
	for file, text := range map[string]string{plugins: `{"plugins": [{"name": "notes"}]}`, servers: `{"mcpServers": {"notes": {"command": "mcp-notes"}}}`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := serveModel(t, "", "--provider", "scripted", "--store", store, "--listen", "127.0.0.1:0", "--external-plugins", plugins)
	await, stop := pluginRunOf(t, "--connection", busembed.PluginFile(store, "notes"), "--mcp", servers)
	await("plugin notes is registered")
	if code := stop(); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0", code)
	}
	n.stop(t, syscall.SIGTERM)
	await, stop = pluginRunOf(t, "--connection", busembed.PluginFile(store, "notes"), "--mcp", servers)
	await("no server answers")
	if code := stop(); code != 0 {
		t.Errorf("SIGTERM without a server: got exit code %d, want 0", code)
	}
}
