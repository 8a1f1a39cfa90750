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
	server := mcpapi.New(mcpapi.Config{Base: api.URL, Transport: http.DefaultTransport})
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
	for tool, args := range map[string]map[string]any{"read_history": {"session": "s1"}, "search_history": {"session": "s1", "text": "x"}} {
		r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
		if err != nil {
			t.Fatal(err)
		}
		text, _ := r.Content[0].(*mcp.TextContent)
		if !r.IsError || text == nil || !strings.Contains(text.Text, "GET /v1/sessions/s1/view of the HTTP API has all of it") {
			t.Errorf("%s: got %+v, want a failure that says where all of it is", tool, r)
		}
	}
}
