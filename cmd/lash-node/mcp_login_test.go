package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/workers/mcp/oauth/oauthtest"
)

// TestMCPLogin has a server behind OAuth: the node names the command for the login once, takes up what it writes without a restart,
// renews a token that is refused in the middle of a turn, and asks for another login when that is over. No output has a token.
func TestMCPLogin(t *testing.T) {
	t.Parallel()
	notes := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, nil)
	calls := 0
	mcp.AddTool(notes, &mcp.Tool{Name: "note", Description: "notes"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		calls++
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint("noted ", calls)}}}, nil, nil
	})
	g := oauthtest.Guard(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return notes }, &mcp.StreamableHTTPOptions{Stateless: true}))
	config := file(t, "mcp.json", []byte(`{"mcpServers": {"notes": {"url": "`+g.URL+`/mcp", "lash": {"start_timeout_ms": 3600000}}}}`)) // a call that waits for a start would wait an hour
	model := newScriptedModel(t)
	node := serveModel(t, model.url, "--store", filepath.Join(t.TempDir(), "st"), "--listen", "127.0.0.1:0", "--mcp", config, "--allow", "notes__note")
	if told := strings.Join(node.lines, "\n"); !strings.Contains(told, "lash-node mcp login notes") {
		t.Errorf("got %s, want the command for the login", told)
	}
	browser := filepath.Join(t.TempDir(), "browser")
	if err := os.WriteFile(browser, []byte("#!/bin/sh\ncurl -sL \"$1\" > /dev/null\n"), 0o700); err != nil { //nolint:gosec // it runs
		t.Fatal(err)
	}
	login := func() {
		t.Helper()
		var out, stderr bytes.Buffer
		env := func(name string) string { return map[string]string{"BROWSER": browser}[name] }
		if code := run(t.Context(), []string{"mcp", "login", "notes", "--mcp", config}, &streams{Out: &out, Err: &stderr, Env: env}); code != exitOK || !strings.Contains(out.String(), "logged in") {
			t.Fatalf("got code %d, %s and %s, want a login", code, &out, &stderr)
		}
	}
	login()
	said := func() string {
		s := newPiped(t, "call notes__note", "--store", node.store)
		_ = s.cmd.Wait()
		return s.out.String()
	}
	works := func() bool { return strings.Contains(said(), "the tool said: noted") }
	bustest.Eventually(t, "the tool after the login", works)
	g.Revoke(false)
	if got, grants := said(), g.Grants(); !strings.Contains(got, "the tool said: noted") || grants != 2 {
		t.Errorf("a token that is refused in a turn: got %q and %d grants, want the tool's answer and 2", got, grants)
	}
	g.Revoke(true)
	if got := said(); !strings.Contains(got, "lash-node mcp login notes") {
		t.Errorf("a login that is over: got %q, want the command for the next one", got)
	}
	login()
	bustest.Eventually(t, "the tool after the second login", works)
	node.stop(t, syscall.SIGTERM)
	if all := strings.Join(node.lines, "\n"); strings.Contains(all, "secret") {
		t.Errorf("got %s, want no token", all)
	}
}

// TestLongMCPServerEnds has a server that ends at its start, six times: the terminal has once how, with its last words.
func TestLongMCPServerEnds(t *testing.T) {
	t.Parallel()
	starts := filepath.Join(t.TempDir(), "starts")
	config := file(t, "mcp.json", []byte(`{"mcpServers": {"quits": {"command": "sh", "args": ["-c", "echo >> `+starts+`; echo no license file >&2; echo bye >&2; exit 3"]}}}`))
	node := serveModel(t, newScriptedModel(t).url, "--store", filepath.Join(t.TempDir(), "st"), "--listen", "127.0.0.1:0", "--mcp", config)
	bustest.Eventually(t, "six starts", func() bool {
		data, err := os.ReadFile(starts) //nolint:gosec // of this test
		return err == nil && len(data) == 6
	})
	node.stop(t, syscall.SIGTERM)
	var told []string
	for _, line := range node.lines {
		if strings.HasPrefix(line, "lash-node: MCP server quits ") {
			told = append(told, line)
		}
	}
	if want := []string{"lash-node: MCP server quits does not run: the command ended: exit status 3: bye"}; !slices.Equal(told, want) {
		t.Errorf("got %q, want %q", told, want)
	}
}
