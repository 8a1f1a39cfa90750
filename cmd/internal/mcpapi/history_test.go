package mcpapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/cmd/internal/mcpapi"
)

// TestLargeAnswer reads a page of a conversation that is larger than what the server passes on. The failure says where all of it is.
func TestLargeAnswer(t *testing.T) {
	t.Parallel()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"messages":["`+strings.Repeat("x", 17<<20)+`"]}`)
	}))
	t.Cleanup(api.Close)
	c := connected(t, api.URL)
	for tool, call := range map[string]struct {
		args map[string]any
		page string
	}{"read_history": {map[string]any{"session": "s1"}, "last=50"}, "search_history": {map[string]any{"session": "s1", "text": "x"}, "from=0"}} {
		r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: call.args})
		if err != nil {
			t.Fatal(err)
		}
		text, _ := r.Content[0].(*mcp.TextContent)
		if !r.IsError || text == nil || !strings.Contains(text.Text, "GET /v1/sessions/s1/view?"+call.page+" of the HTTP API has all of it") {
			t.Errorf("%s: got %+v, want a failure that says where all of it is", tool, r)
		}
	}
}

// connected is an agent of a server for an API.
func connected(t *testing.T, url string) *mcp.ClientSession {
	t.Helper()
	return connectedTo(t, mcpapi.Config{Base: url, Transport: http.DefaultTransport})
}

func connectedTo(t *testing.T, cfg mcpapi.Config) *mcp.ClientSession {
	t.Helper()
	server := mcpapi.New(cfg)
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

// TestCreateSessionSetsItsModel: the model and the instructions are settings of the session.
func TestCreateSessionSetsItsModel(t *testing.T) {
	t.Parallel()
	body := make(chan string, 1)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		body <- string(data)
		_, _ = io.WriteString(w, `{"id":"s1"}`)
	}))
	t.Cleanup(api.Close)
	args := map[string]any{"id": "s1", "model": "m", "instructions": "be kind"}
	if _, err := connected(t, api.URL).CallTool(t.Context(), &mcp.CallToolParams{Name: "create_session", Arguments: args}); err != nil {
		t.Fatal(err)
	}
	if got, want := <-body, `{"config":{"model":"m","instructions":"be kind"},"id":"s1"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
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
		{map[string]any{"text": "a&b ü"}, `"url":"/v1/search?text=a%26b+%C3%BC"`},
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

// TestHistoryInParts asks the API for the part of a conversation that an agent wants, and no more, and returns it. A search in a session
// reads one page after the other, up to its limit.
func TestHistoryInParts(t *testing.T) {
	t.Parallel()
	const of = 7
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Has("last") {
			_, _ = io.WriteString(w, `{"messages":["`+r.URL.RawQuery+`"],"from":6,"of":7}`)
			return
		}
		from, _ := strconv.Atoi(q.Get("from"))
		if q.Has("limit") || from >= of {
			_, _ = io.WriteString(w, `{"messages":["`+r.URL.RawQuery+`"],"from":2,"of":7,"next":3}`)
			return
		}
		next := ""
		if from < of-1 {
			next = fmt.Sprintf(`,"next":%d`, from+1)
		}
		_, _ = fmt.Fprintf(w, `{"messages":[{"parts":[{"type":"text","text":"x%d"}]}],"from":%d,"of":%d%s}`, from, from, of, next)
	}))
	t.Cleanup(api.Close)
	c := connected(t, api.URL)
	hit := func(i int) string {
		return fmt.Sprintf(`{"index":%d,"message":{"parts":[{"type":"text","text":"x%d"}]}}`, i, i)
	}
	for _, want := range []struct {
		tool string
		args map[string]any
		text string
	}{
		{"read_history", map[string]any{}, `{"messages":["last=50"],"from":6,"of":7}`},
		{"read_history", map[string]any{"limit": 2}, `{"messages":["last=2"],"from":6,"of":7}`},
		{"read_history", map[string]any{"from": 0, "limit": 3}, `{"messages":["from=0\u0026limit=3"],"from":2,"of":7,"next":3}`},
		{"read_history", map[string]any{"from": 6, "limit": 1 << 50}, `{"messages":["from=6\u0026limit=1125899906842624"],"from":2,"of":7,"next":3}`},
		{"read_history", map[string]any{"from": -1}, "from: is negative"},
		{"read_history", map[string]any{"limit": -1}, "limit: is negative"},
		{"search_history", map[string]any{"text": "X6"}, `{"found":[` + hit(6) + `],"of":7}`},
		{"search_history", map[string]any{"text": "x", "limit": 2}, `{"found":[` + hit(0) + "," + hit(1) + `],"of":7,"next":2}`},
		{"search_history", map[string]any{"text": "x", "limit": 2, "from": 5}, `{"found":[` + hit(5) + "," + hit(6) + `],"of":7}`},
		{"search_history", map[string]any{"text": "x", "from": -1}, "from, limit: one is negative"},
	} {
		want.args["session"] = "s1"
		r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: want.tool, Arguments: want.args})
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := r.Content[0].(*mcp.TextContent); text == nil || text.Text != want.text {
			t.Errorf("%v: got %+v, want %s", want.args, text, want.text)
		}
	}
}
