package mcp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	clients "github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/workers/mcp"
)

// serveHTTP serves a server over streamable HTTP, to requests with a token.
func serveHTTP(t *testing.T, server *sdk.Server) (at mcp.Server, refused *atomic.Int64, down *atomic.Bool) {
	t.Helper()
	return serveBy(t, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
}

func serveBy(t *testing.T, handler http.Handler) (at mcp.Server, refused *atomic.Int64, down *atomic.Bool) {
	t.Helper()
	refused, down = new(atomic.Int64), new(atomic.Bool)
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

// TestSmokeHTTP calls tools of a server over streamable HTTP, and over HTTP with SSE, which needs a token. After the server was away,
// calls work again.
func TestSmokeHTTP(t *testing.T) {
	t.Parallel()
	for _, sse := range []bool{false, true} {
		t.Run(fmt.Sprintf("sse_%v", sse), func(t *testing.T) {
			t.Parallel()
			s := start(t)
			own := testServer(s.runs)
			get := func(*http.Request) *sdk.Server { return own }
			handler := http.Handler(sdk.NewStreamableHTTPHandler(get, nil))
			if sse {
				handler = sdk.NewSSEHandler(get, nil)
			}
			server, refused, down := serveBy(t, handler)
			server.SSE = sse
			s.source(server)
			runtest.Equal(t, "result", s.result("web__look", `{"do":"x"}`).Text, "did x")
			runtest.Equal(t, "refused", refused.Load(), 0)
			down.Store(true)
			if r := s.result("web__once", `{"do":"x"}`); r.Outcome == events.OutcomeSuccess {
				t.Errorf("while the server is away: got %+v", r)
			}
			down.Store(false)
			s.AwaitPolling("a call", func() bool { return s.result("web__once", `{"do":"y"}`).Text == "did y" })
		})
	}
}

// TestLongServerComesBack has a server over HTTP be away for more tries than a command has: people read why once, and a call works within
// seconds after it is back.
func TestLongServerComesBack(t *testing.T) {
	t.Parallel()
	s := start(t)
	own := testServer(s.runs)
	var tries atomic.Int64
	var away atomic.Bool
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return own }, nil)
	server, _, _ := serveBy(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			tries.Add(1)
			http.Error(w, "away", http.StatusBadGateway)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	s.source(server)
	away.Store(true)
	runtest.Equal(t, "outcome while it is away", s.result("web__once", `{"do":"x"}`).Outcome, events.OutcomeLost)
	s.AwaitPolling("many tries", func() bool { return tries.Load() > 8 })
	id := s.begin("web__once", `{"do":"y"}`)
	away.Store(false)
	back := time.Now()
	s.AwaitTurn(id, "t1")
	runtest.Equal(t, "result", s.resultOf(id).Text, "did y")
	if took := time.Since(back); took > 10*time.Second {
		t.Errorf("the server was used %v after it was back", took)
	}
	runtest.Equal(t, "lines that people read", len(s.told.all()), 1)
}

// TestSilentSSE has a server that answers the request for its stream, and sends nothing: its start fails when its time is over.
func TestSilentSSE(t *testing.T) {
	t.Parallel()
	s := start(t)
	server, _, _ := serveBy(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	server.SSE, server.StartTimeout = true, 200*time.Millisecond
	told := new(lines)
	servers, err := mcp.New(mcp.Config{Servers: []mcp.Server{server}, Logger: zap.NewNop(), Tell: told.add})
	runtest.WantError(t, "servers", err, nil)
	runtest.WantError(t, "start", servers.Start(s.Ctx), nil)
	s.AwaitPolling("what people read", func() bool { return strings.Contains(strings.Join(told.all(), " "), "it did not answer within 200ms") })
	runtest.WantError(t, "stop", servers.Stop(s.Ctx), nil)
}

// TestServerRefusesOptionalRequests has servers that refuse what they need not take, or do not end their answer to it: notifications, and
// the request for a stream.
func TestServerRefusesOptionalRequests(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(r *http.Request, body string) int{
		"notifications": func(r *http.Request, body string) int {
			if strings.Contains(body, `"notifications/`) {
				return http.StatusBadRequest
			}
			return 0
		},
		"notifications_without_end": func(_ *http.Request, body string) int {
			if strings.Contains(body, `"notifications/`) {
				return http.StatusOK
			}
			return 0
		},
		"stream_401": func(r *http.Request, _ string) int {
			return map[string]int{http.MethodGet: http.StatusUnauthorized}[r.Method]
		},
		"stream_500": func(r *http.Request, _ string) int {
			return map[string]int{http.MethodGet: http.StatusInternalServerError}[r.Method]
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			own := testServer(s.runs)
			handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return own }, nil)
			var began atomic.Int64
			server, _, _ := serveBy(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				if strings.Contains(string(body), `"method":"initialize"`) {
					began.Add(1)
				}
				switch code := refuse(r, string(body)); code {
				case 0:
					handler.ServeHTTP(w, r)
				case http.StatusOK:
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
				default:
					http.Error(w, "no", code)
				}
			}))
			s.source(server)
			for n := range 3 {
				runtest.Equal(t, "result", s.result("web__once", fmt.Sprintf(`{"do":"%d"}`, n)).Text, fmt.Sprint("did ", n))
			}
			runtest.Equal(t, "sessions", began.Load(), 1)
		})
	}
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
		property := map[string]any{"type": "string", "description": fmt.Sprint(strings.Repeat("p", 600), n)}
		add(fmt.Sprintf("t%04d", n), map[string]any{"type": "object", "properties": map[string]any{"p": property}})
	}
	add("loop", map[string]any{"type": "object", "$ref": "#"}) // refers to itself for ever
	s := start(t)
	server, _, _ := serveHTTP(t, many)
	some := server
	some.Name, some.Tools = "some", []string{"t19*"}
	good := s.own("good")
	s.source(server, some, good)
	s.Wait("tools of some", s.of("some").Ready())
	s.Wait("tools of good", s.of("good").Ready())
	id := s.begin("web__t0000", `{}`)
	s.AwaitTurn(id, "t1")
	runtest.Equal(t, "first", s.resultOf(id).Text, "t0000")
	if parts := len(harness.Find[*events.ToolStateApplied](s.System, id)); parts < 2 {
		t.Errorf("got the catalogue in %d events, want several: one does not hold it", parts)
	}
	harness.VerifyHistory(t, s.Bus, id)
	runtest.Equal(t, "last", s.result("web__t1999", `{}`).Text, "t1999")
	runtest.Equal(t, "named", s.result("some__t1999", `{}`).Text, "t1999")
	runtest.Equal(t, "of another server", s.result("good__look", `{"do":"x"}`).Text, "did x")
	count := make(map[string]int)
	for _, name := range s.tools() {
		server, _, _ := strings.Cut(name, "__")
		count[server]++
	}
	if count["web"] != 2001 || count["some"] != 100 {
		t.Errorf("got %v, want all tools of web, and 100 of some", count)
	}
	c, err := clients.New(clients.Config{Bus: bustest.Open(t, s.Server)}) // one answer does not hold the contracts
	runtest.WantError(t, "client", err, nil)
	state, err := c.ToolState(s.Ctx, id)
	runtest.WantError(t, "tools for a client", err, nil)
	list, err := c.ToolCatalog(s.Ctx, id)
	runtest.WantError(t, "catalogue for a client", err, nil)
	if last := string(list[len(list)-1]); len(list) != len(state.Tools) || len(list) < 2101 || slices.ContainsFunc(state.Tools, func(tool events.ToolEntry) bool { return tool.LacksContract() }) || !strings.Contains(last, "pp1999") {
		t.Errorf("got %d tools and a catalogue of %d, whose last one is %.100s", len(state.Tools), len(list), last)
	}
}

// TestSecretsStay has a server redirect to another host, one that names another host as the address of requests, and one that is not there, whose URL has a secret: the other host
// gets no request, and neither the log nor the history has the secret.
func TestSecretsStay(t *testing.T) {
	t.Parallel()
	var got atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Add(1) }))
	t.Cleanup(other.Close)
	first := httptest.NewServer(http.RedirectHandler(other.URL+"/mcp", http.StatusTemporaryRedirect))
	t.Cleanup(first.Close)
	names := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "event: endpoint\ndata: %s/messages\n\n", other.URL)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(names.Close)
	core, logged := observer.New(zap.DebugLevel)
	s := start(t)
	for _, server := range []mcp.Server{
		{Name: "moves", URL: first.URL + "/?key=hunter2", Headers: map[string]string{"Authorization": "Bearer hunter2"}},
		{Name: "names", URL: names.URL, SSE: true, Headers: map[string]string{"Authorization": "Bearer hunter2"}},
		{Name: "absent", URL: "http://user:hunter2@127.0.0.1:1/mcp?key=hunter2"},
		{Name: "path", URL: "http://127.0.0.1:1/hunter2/mcp"},
		{Name: "user", URL: "http://hunter2@127.0.0.1:1/mcp"},
	} {
		before := logged.Len()
		var told atomic.Pointer[string]
		servers, err := mcp.New(mcp.Config{Servers: []mcp.Server{server}, Logger: zap.New(core), Tell: func(line string) { told.Store(&line) }})
		runtest.WantError(t, "servers", err, nil)
		runtest.WantError(t, "start", servers.Start(s.Ctx), nil)
		s.AwaitPolling("a warning", func() bool { return logged.Len() > before && told.Load() != nil })
		runtest.WantError(t, "stop", servers.Stop(s.Ctx), nil)
		if strings.Contains(*told.Load(), "hunter2") {
			t.Errorf("people read %s", *told.Load())
		}
	}
	runtest.Equal(t, "requests to the other host", got.Load(), 0)
	for _, e := range logged.All() {
		if text := fmt.Sprint(e.Message, e.ContextMap()); strings.Contains(text, "hunter2") {
			t.Errorf("log: got %s", text)
		}
	}
}
