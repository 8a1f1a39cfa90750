package mcpapi_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/cmd/internal/mcpapi"
)

// TestLargeAnswer reads a conversation that is larger than what the server passes on. The failure says where all of it is.
func TestLargeAnswer(t *testing.T) {
	t.Parallel()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"messages":["`+strings.Repeat("x", 17<<20)+`"]}`)
	}))
	t.Cleanup(api.Close)
	c := connected(t, api.URL)
	for tool, args := range map[string]map[string]any{"read_history": {"session": "s1"}, "search_history": {"session": "s1", "text": "x"}} {
		r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
		if err != nil {
			t.Fatal(err)
		}
		text, _ := r.Content[0].(*mcp.TextContent)
		if !r.IsError || text == nil || !strings.Contains(text.Text, "GET /v1/sessions/s1/view of the HTTP API has all of it") {
			t.Errorf("%s: got %+v, want a failure that says where all of it is", tool, r)
		}
	}
}

// connected is an agent of a server for an API.
func connected(t *testing.T, url string) *mcp.ClientSession {
	t.Helper()
	server := mcpapi.New(mcpapi.Config{Base: url, Transport: http.DefaultTransport})
	here, there := mcp.NewInMemoryTransports()
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { // ends with ctx
		defer close(ended)
		_ = server.Run(ctx, there) // the client's end
	}()
	t.Cleanup(func() { end(); <-ended })
	c, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(ctx, here, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestSearchPaths: without a session search_history is a search of the API in all sessions; with one it takes a text alone.
func TestSearchPaths(t *testing.T) {
	t.Parallel()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"messages":[],"url":"`+r.URL.RequestURI()+`"}`)
	}))
	t.Cleanup(api.Close)
	c := connected(t, api.URL)
	for _, want := range []struct {
		args map[string]any
		text string
	}{
		{map[string]any{"text": "a&b ü"}, `"url":"/v1/search?text=a%26b+%C3%BC&"`},
		{map[string]any{"tool": "t", "actor": "client:me", "outcome": "lost", "label": "a=b", "limit": 7, "cursor": "c"}, `"url":"/v1/search?actor=client%3Ame&cursor=c&label=a%3Db&limit=7&outcome=lost&tool=t"`},
		{map[string]any{}, `"url":"/v1/search?"`}, // the API refuses it
		{map[string]any{"session": "s1", "text": "x"}, `{"found":[],"of":0}`},
		{map[string]any{"session": "s1"}, "text: is empty"},
		{map[string]any{"session": "s1", "text": "x", "tool": "t"}, "session: excludes every other argument than text"},
	} {
		r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "search_history", Arguments: want.args})
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := r.Content[0].(*mcp.TextContent); text == nil || !strings.Contains(text.Text, want.text) {
			t.Errorf("%v: got %+v, want %s", want.args, text, want.text)
		}
	}
}

// TestHistoryInParts reads each part of a conversation of seven messages. A part has the messages from its index on, or the
// last ones, and says where the next one begins.
func TestHistoryInParts(t *testing.T) {
	t.Parallel()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"messages":[0,1,2,3,4,5,6]}`)
	}))
	t.Cleanup(api.Close)
	c := connected(t, api.URL)
	for _, want := range []struct {
		args map[string]any
		text string
	}{
		{map[string]any{}, `{"messages":[0,1,2,3,4,5,6],"from":0,"of":7}`},
		{map[string]any{"limit": 2}, `{"messages":[5,6],"from":5,"of":7}`},
		{map[string]any{"from": 0, "limit": 3}, `{"messages":[0,1,2],"from":0,"of":7,"next":3}`},
		{map[string]any{"from": 3, "limit": 3}, `{"messages":[3,4,5],"from":3,"of":7,"next":6}`},
		{map[string]any{"from": 6, "limit": 3}, `{"messages":[6],"from":6,"of":7}`},
		{map[string]any{"from": 6, "limit": 1 << 50}, `{"messages":[6],"from":6,"of":7}`},
		{map[string]any{"from": 7}, `{"messages":[],"from":7,"of":7}`},
		{map[string]any{"from": 1 << 50}, `{"messages":[],"from":7,"of":7}`},
		{map[string]any{"from": -1}, "from: is negative"},
		{map[string]any{"limit": -1}, "limit: is negative"},
	} {
		want.args["session"] = "s1"
		r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "read_history", Arguments: want.args})
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := r.Content[0].(*mcp.TextContent); text == nil || text.Text != want.text {
			t.Errorf("%v: got %+v, want %s", want.args, text, want.text)
		}
	}
}
