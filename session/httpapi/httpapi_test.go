package httpapi_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/operation"
)

func TestMain(m *testing.M) { bustest.VerifyTestMain(m) }

const secret = "open-sesame"

func config(t testing.TB) httpapi.Config {
	t.Helper()
	h, err := session.New(session.Config{Bus: bustest.Start(t), Plugins: session.NoPlugins()})
	if err != nil {
		t.Fatal(err)
	}
	return httpapi.Config{Service: h, Tokens: []httpapi.Token{{Name: "me", Digest: sha256.Sum256([]byte(secret)), Scope: api.ScopeAdmin}}}
}

func newServer(t testing.TB, cfg httpapi.Config) *httpapi.Server {
	t.Helper()
	s, err := httpapi.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(context.Background()) }) // nothing of it is left
	return s
}

// ask sends a request to the handler, without a network.
func ask(t testing.TB, s *httpapi.Server, method, path, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+secret)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// code is the code of a problem response.
func code(t testing.TB, w *httptest.ResponseRecorder) string {
	t.Helper()
	var p struct {
		Status int
		Code   string
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Status != w.Code || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("got %d %q of %s, %v, want a problem", w.Code, w.Body, w.Header().Get("Content-Type"), err)
	}
	return fmt.Sprintf("%d %s", w.Code, p.Code)
}

func TestRequestIsRefused(t *testing.T) {
	t.Parallel()
	s := newServer(t, config(t))
	for name, c := range map[string]struct{ method, path, body, header, value, want string }{
		"no_body":         {"POST", "/v1/sessions", "", "", "", "400 invalid_body"},
		"no_json":         {"POST", "/v1/sessions", "{", "", "", "400 invalid_body"},
		"two_values":      {"POST", "/v1/sessions", "{} {}", "", "", "400 invalid_body"},
		"deep_json":       {"POST", "/v1/sessions", `{"x":` + strings.Repeat("[", 100000), "", "", "400 invalid_body"},
		"nested_unknown":  {"POST", "/v1/sessions", `{"config":{"nosuch":1}}`, "", "", "400 invalid_body"},
		"no_key":          {"POST", "/v1/sessions", `{}`, "Idempotency-Key", "a b", "400 invalid_id"},
		"another_key":     {"POST", "/v1/sessions", `{"id":"a"}`, "Idempotency-Key", "b", "400 invalid_parameter"},
		"no_path":         {"GET", "/v2", "", "", "", "404 no_path"},
		"unclean_path":    {"GET", "/v1//sessions/../sessions", "", "", "", "404 no_path"},
		"no_method":       {"BREW", "/v1/sessions", "", "", "", "405 method_not_allowed"},
		"no_cursor":       {"GET", "/v1/sessions/s/events?cursor=-1", "", "", "", "400 invalid_parameter"},
		"no_last_id":      {"GET", "/v1/sessions/s/events", "", "Last-Event-ID", "x", "400 invalid_parameter"},
		"long_wait":       {"GET", "/v1/sessions/s/turns/t?wait=10h", "", "", "", "400 invalid_parameter"},
		"no_wait":         {"GET", "/v1/sessions/s/turns/t", "", "Prefer", "wait=soon", "400 invalid_parameter"},
		"malformed_query": {"GET", "/v1/sessions/s?%zz", "", "", "", "400 invalid_parameter"},
		"two_inputs":      {"POST", "/v1/sessions/s/turns", `{"text":"a","continue":true}`, "", "", "400 invalid_body"},
		"no_scheme":       {"GET", "/v1/sessions/s", "", "Authorization", "Basic " + secret, "401 unauthorized"},
		"longer_token":    {"GET", "/v1/sessions/s", "", "Authorization", "Bearer " + secret + "x", "401 unauthorized"},
		"empty_token":     {"GET", "/v1/sessions/s", "", "Authorization", "Bearer ", "401 unauthorized"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := ask(t, s, c.method, c.path, c.body, c.header, c.value)
			if got := code(t, w); got != c.want {
				t.Errorf("got %s, want %s: %s", got, c.want, w.Body)
			}
			if strings.Contains(w.Body.String(), secret) {
				t.Errorf("got %s, want no token in it", w.Body)
			}
		})
	}
}

func TestHead(t *testing.T) {
	t.Parallel()
	s := newServer(t, config(t))
	ask(t, s, "POST", "/v1/sessions", `{"id":"s"}`)
	for _, path := range []string{"/v1/openapi.json", "/v1/sessions/s", "/v1/sessions/s/events"} {
		if w := ask(t, s, http.MethodHead, path, ""); w.Code != http.StatusOK {
			t.Errorf("HEAD %s: got %d %s, want 200", path, w.Code, w.Body)
		}
	}
	w := ask(t, s, http.MethodDelete, "/v1/openapi.json", "")
	if got := w.Header().Get("Allow"); got != "GET, HEAD" {
		t.Errorf("Allow: got %q, want GET, HEAD", got)
	}
}

func TestCrossOrigin(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	closed := newServer(t, cfg)
	cfg.Origins = []string{"https://here.example"}
	open := newServer(t, cfg)
	for name, c := range map[string]struct {
		s            *httpapi.Server
		origin, want string
	}{
		"off":     {closed, "https://here.example", ""},
		"allowed": {open, "https://here.example", "https://here.example"},
		"other":   {open, "https://there.example", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := ask(t, c.s, http.MethodOptions, "/v1/sessions", "", "Origin", c.origin, "Access-Control-Request-Method", "POST")
			if got := w.Header().Get("Access-Control-Allow-Origin"); got != c.want || (w.Code == http.StatusNoContent) != (c.want != "") {
				t.Errorf("preflight: got %d for %q, want it for %q", w.Code, got, c.want)
			}
			w = ask(t, c.s, http.MethodPost, "/v1/sessions", "{}", "Origin", c.origin)
			if got := w.Header().Get("Access-Control-Allow-Origin"); got != c.want || w.Code != http.StatusCreated {
				t.Errorf("request: got %d for %q, want 201 for %q", w.Code, got, c.want)
			}
		})
	}
}

// broken is a service that panics.
type broken struct{ operation.Host }

func (broken) View(context.Context, events.SessionID) (projector.ReadView, error) { panic("oh") }

// TestPanicIsAnswered also checks that the log has no token.
func TestPanicIsAnswered(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.DebugLevel)
	cfg := config(t)
	cfg.Service, cfg.Logger = broken{cfg.Service}, zap.New(core)
	if got := code(t, ask(t, newServer(t, cfg), "GET", "/v1/sessions/s/view", "")); got != "500 internal" {
		t.Errorf("got %s, want 500 internal", got)
	}
	if text := fmt.Sprint(logs.All()); logs.Len() != 1 || strings.Contains(text, secret) {
		t.Errorf("log: got %s, want one line without the token", text)
	}
}

// breaking is a service whose stream panics after its first observation.
type breaking struct{ operation.Host }

func (breaking) Observe(context.Context, events.SessionID, events.Seq) iter.Seq2[api.Observed, error] {
	return func(func(api.Observed, error) bool) { panic("oh") }
}

// TestPanicCutsStream checks that a panic cuts a started stream, without further data.
func TestPanicCutsStream(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.ErrorLevel)
	cfg := config(t)
	cfg.Service, cfg.Logger = breaking{cfg.Service}, zap.New(core)
	s := newServer(t, cfg)
	ask(t, s, "POST", "/v1/sessions", `{"id":"s"}`)
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/sessions/s/events", nil)
	r.Header.Set("Authorization", "Bearer "+secret)
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if v := recover(); v != http.ErrAbortHandler { //nolint:errorlint,err113 // a panic's value
				t.Errorf("panic: got %v, want %v", v, http.ErrAbortHandler)
			}
		}()
		s.ServeHTTP(w, r)
	}()
	if w.Code != http.StatusOK || strings.Contains(w.Body.String(), "internal") || logs.Len() != 1 {
		t.Errorf("got %d %q and %d log lines, want a stream without a problem in it, and one line", w.Code, w.Body, logs.Len())
	}
}

// lasting is a service whose view blocks until it is cut off, and a little longer.
type lasting struct {
	operation.Host
	began chan<- struct{}
	ended *atomic.Bool
}

func (l lasting) View(ctx context.Context, _ events.SessionID) (projector.ReadView, error) {
	close(l.began)
	<-ctx.Done()
	runtime.Gosched()
	l.ended.Store(true)
	return projector.ReadView{}, ctx.Err()
}

// TestStopWaits stops without a grace period: the running request is cut off, and has ended when Stop returns.
func TestStopWaits(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	began, ended := make(chan struct{}), new(atomic.Bool)
	cfg.Service = lasting{cfg.Service, began, ended}
	s := newServer(t, cfg)
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Start(on)
	conn, err := net.Dial("tcp", on.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the server closes it too
	_, _ = fmt.Fprintf(conn, "GET /v1/sessions/s/view HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", secret)
	<-began
	now, cancel := context.WithCancel(t.Context())
	cancel()
	s.Stop(now)
	if !ended.Load() {
		t.Error("got a request that outlives Stop")
	}
}

// dial connects to a running server.
func dial(t *testing.T, cfg httpapi.Config) net.Conn {
	t.Helper()
	s := newServer(t, cfg)
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Start(on)
	conn, err := net.Dial("tcp", on.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute)) // so that the test fails instead of hanging
	return conn
}

// TestSlowClient sends the start of a request and no more. The server ends the connection.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.BodyTimeout, cfg.MaxHeaderBytes = 50*time.Millisecond, 4096
	for name, c := range map[string]struct{ request, want string }{
		"header":       {"GET /v1/sessions/s HTTP/1.1\r\nHost:", ""},
		"body":         {"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + secret + "\r\nContent-Length: 100\r\n\r\n{", "HTTP/1.1 400 Bad Request"},
		"huge_header":  {"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", "HTTP/1.1 431 Request Header Fields Too Large"},
		"announced":    {"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + secret + "\r\nTransfer-Encoding: chunked\r\n\r\n200000\r\n" + strings.Repeat("x", 2<<20), "HTTP/1.1 413 Request Entity Too Large"},
		"whole":        {"GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 OK"},
		"not_http":     {"\x16\x03\x01 hello\r\n\r\n", "HTTP/1.1 400 Bad Request"},
		"unread_body":  {"GET /v1/sessions/s HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", "HTTP/1.1 401 Unauthorized"},
		"unknown_path": {"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", "HTTP/1.1 404 Not Found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := cfg
			switch name { // the other cases do not depend on the time
			case "header":
				cfg.ReadHeaderTimeout = 50 * time.Millisecond
			case "announced":
				cfg.BodyTimeout = time.Minute
			}
			conn := dial(t, cfg)
			_, _ = conn.Write([]byte(c.request)) // the server may have cut the connection
			answer := make([]byte, 1<<20)
			n := 0
			for {
				more, err := conn.Read(answer[n:])
				if n += more; err != nil {
					if e, ok := err.(net.Error); ok && e.Timeout() { //nolint:errorlint // of the connection itself
						t.Fatalf("got %q and an open connection, want it closed", answer[:n])
					}
					break
				}
			}
			line, _, _ := strings.Cut(string(answer[:n]), "\r\n")
			if line != c.want {
				t.Errorf("got %q, want %q", line, c.want)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	me := httpapi.Token{Name: "me", Digest: sha256.Sum256([]byte("x")), Scope: api.ScopeRead}
	you := httpapi.Token{Name: "you", Digest: me.Digest, Scope: api.ScopeRead}
	for want, cfg := range map[string]httpapi.Config{
		"service is required":         {Tokens: []httpapi.Token{me}},
		"a token is required":         {},
		"is that of caller me too":    {Tokens: []httpapi.Token{me, you}},
		"caller me has another scope": {Tokens: []httpapi.Token{me, {Name: "me", Certificate: "cn:me", Scope: api.ScopeRead, Own: true}}},
		"want uri:URI or cn:NAME":     {Tokens: []httpapi.Token{{Name: "me", Certificate: "dns:me", Scope: api.ScopeRead}}},
		"tenant: must be":             {Tokens: []httpapi.Token{me}, Tenant: "a b"},
		"Recheck -1s is":              {Tokens: []httpapi.Token{me}, Recheck: -time.Second},
		"scope is none of":            {Tokens: []httpapi.Token{{Name: "me", Digest: me.Digest, Scope: "all"}}},
		"has no digest":               {Tokens: []httpapi.Token{{Name: "me", Scope: api.ScopeRead}}},
		`origin "*": want`:            {Tokens: []httpapi.Token{me}, Origins: []string{"*"}},
		`origin "https://a/": want`:   {Tokens: []httpapi.Token{me}, Origins: []string{"https://a/"}},
		`origin "https://a/b": want`:  {Tokens: []httpapi.Token{me}, Origins: []string{"https://a/b"}},
		`origin "a.example": want`:    {Tokens: []httpapi.Token{me}, Origins: []string{"a.example"}},
		`origin "null": want`:         {Tokens: []httpapi.Token{me}, Origins: []string{"null"}},
		"MaxStreams -1 is":            {Tokens: []httpapi.Token{me}, MaxStreams: -1},
		"KeepAlive -1s is":            {Tokens: []httpapi.Token{me}, KeepAlive: -time.Second},
		"tokens[0]: name: must be":    {Tokens: []httpapi.Token{{Name: "a b", Digest: me.Digest, Scope: api.ScopeRead}}},
	} {
		if _, err := httpapi.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

// FuzzRequest sends arbitrary requests to the handler. None panics, none is an internal error, and every refusal is a
// problem with a code.
func FuzzRequest(f *testing.F) {
	cfg := config(f)
	cfg.MaxWait, cfg.MaxBodyBytes = 10*time.Millisecond, 4096
	s := newServer(f, cfg)
	for _, id := range []string{"s", "closed"} {
		ask(f, s, "POST", "/v1/sessions", `{"id":"`+id+`","nodes":[{"message":{"id":"n","role":"user","parts":[{"type":"text","text":"x"}]}}]}`)
	}
	ask(f, s, "POST", "/v1/sessions/s/turns", `{"id":"t","text":"hello"}`)
	ask(f, s, "DELETE", "/v1/sessions/closed", "")
	var table struct {
		Paths map[string]map[string]struct{}
	}
	if err := json.Unmarshal(ask(f, s, "GET", "/v1/openapi.json", "").Body.Bytes(), &table); err != nil {
		f.Fatal(err)
	}
	for path, methods := range table.Paths {
		for method := range methods {
			for _, id := range []string{"s", "closed"} {
				at := strings.NewReplacer("{session}", id, "{turn}", "t", "{input}", "i", "{task}", "k", "{source}", "more", "{monitor}", "m").Replace(path)
				f.Add(strings.ToUpper(method), at, "k", `{}`)
				f.Add(strings.ToUpper(method), at+"?wait=1ms", "", `{"text":"a","nodes":[{"message":{"role":"user","parts":[{"type":"text","text":"x"}]}}],"node":"n","id":"f"}`)
			}
		}
	}
	f.Fuzz(func(t *testing.T, method, path, key, body string) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // streams do not end
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, method, "http://x"+path, strings.NewReader(body))
		if err != nil {
			return
		}
		r.Header.Set("Authorization", "Bearer "+secret)
		r.Header.Set("Idempotency-Key", key)
		r.Header.Set("Last-Event-ID", key)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code >= http.StatusBadRequest && strings.HasPrefix(code(t, w), "500") {
			t.Errorf("%s %s %q: got %s, want no internal error", method, path, body, w.Body)
		}
	})
}
