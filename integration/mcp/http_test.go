package mcp

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/mcp"
)

// serveHTTP serves a server over streamable HTTP, to requests with a token.
func serveHTTP(t *testing.T, server *sdk.Server) (at mcp.Server, refused *atomic.Int64, down *atomic.Bool) {
	t.Helper()
	refused, down = new(atomic.Int64), new(atomic.Bool)
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		if r.Header.Get("Authorization") != "Bearer secret" {
			refused.Add(1)
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return mcp.Server{Name: "web", URL: s.URL, Headers: map[string]string{"Authorization": "Bearer secret"}, Timeout: time.Minute}, refused, down
}

// TestSmokeHTTP calls tools of a server over streamable HTTP, which needs a token. After the server was away, calls work again.
func TestSmokeHTTP(t *testing.T) {
	t.Parallel()
	s := start(t)
	server, refused, down := serveHTTP(t, testServer(s.runs))
	on, _ := s.node(server)
	s.source(on.Conn(), server)
	harness.Equal(t, "result", s.result("web__look", `{"do":"x"}`).Text, "did x")
	harness.Equal(t, "refused", refused.Load(), 0)
	down.Store(true)
	if r := s.result("web__once", `{"do":"x"}`); r.Outcome == events.OutcomeSuccess {
		t.Errorf("while the server is away: got %+v", r)
	}
	down.Store(false)
	s.AwaitPolling("a call", func() bool { return s.result("web__once", `{"do":"y"}`).Text == "did y" })
}

// TestManyTools has a server with 2 000 tools, among them some that a session cannot have, beside another server. Sessions
// have as many as they can, by name, or those that the operator names.
func TestManyTools(t *testing.T) {
	t.Parallel()
	many := sdk.NewServer(&sdk.Implementation{Name: "many", Version: "1"}, nil)
	add := func(name string, schema any) {
		many.AddTool(&sdk.Tool{Name: name, Description: strings.Repeat("d", 100), InputSchema: schema}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: name}}}, nil
		})
	}
	for n := range 2000 {
		add(fmt.Sprintf("t%04d", n), map[string]any{"type": "object"})
	}
	add("loop", map[string]any{"type": "object", "$ref": "#"}) // refers to itself for ever
	s := start(t)
	server, _, _ := serveHTTP(t, many)
	some := server
	some.Name, some.Tools = "some", []string{"t19*"}
	good := s.own("good")
	on, _ := s.node(server, some, good)
	s.source(on.Conn(), server)
	s.source(on.Conn(), some)
	s.source(on.Conn(), good)
	harness.Equal(t, "first", s.result("web__t0000", `{}`).Text, "t0000")
	harness.Equal(t, "named", s.result("some__t1999", `{}`).Text, "t1999")
	harness.Equal(t, "of another server", s.result("good__look", `{"do":"x"}`).Text, "did x")
	for _, status := range s.plugins[0].Status() {
		if len(status.Tools) > wire.MaxTools || status.Name != "good" && len(status.Tools) < 90 {
			t.Errorf("%s: got %d tools, want many, and %d at most", status.Name, len(status.Tools), wire.MaxTools)
		}
	}
}

// TestSecretsStay has a server redirect to another host, and one that is not there, whose URL has a secret: the other host
// gets no request, and neither the log nor the history has the secret.
func TestSecretsStay(t *testing.T) {
	t.Parallel()
	var got atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Add(1) }))
	t.Cleanup(other.Close)
	first := httptest.NewServer(http.RedirectHandler(other.URL+"/mcp", http.StatusTemporaryRedirect))
	t.Cleanup(first.Close)
	core, logged := observer.New(zap.DebugLevel)
	s := start(t)
	on, _ := s.node()
	for _, server := range []mcp.Server{
		{Name: "moves", URL: first.URL + "/?key=hunter2", Headers: map[string]string{"Authorization": "Bearer hunter2"}},
		{Name: "absent", URL: "http://user:hunter2@127.0.0.1:1/mcp?key=hunter2"},
		{Name: "path", URL: "http://127.0.0.1:1/hunter2/mcp"},
		{Name: "user", URL: "http://hunter2@127.0.0.1:1/mcp"},
	} {
		before := logged.Len()
		source, err := mcp.Start(s.Ctx, mcp.Config{Server: server, Conn: on.Conn(), Logger: zap.New(core)})
		harness.WantError(t, "source", err, nil)
		s.AwaitPolling("a warning", func() bool { return logged.Len() > before })
		harness.WantError(t, "stop", source.Stop(s.Ctx), nil)
	}
	harness.Equal(t, "requests to the other host", got.Load(), 0)
	for _, e := range logged.All() {
		if text := fmt.Sprint(e.Message, e.ContextMap()); strings.Contains(text, "hunter2") {
			t.Errorf("log: got %s", text)
		}
	}
}
