package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lash-go/lash/session/accesslog"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/webpage"
)

// TestAccessLog sends requests of every outcome. Each is one log line with the caller, the operation and the outcome.
// No line contains a token, a body or a query.
func TestAccessLog(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	cfg := config(t)
	cfg.Access = accesslog.Log(zap.New(core))
	cfg.Service = broken{cfg.Service}
	s := newServer(t, cfg)
	for _, c := range []struct {
		method, path, body, token string
		want                      map[string]any
	}{
		{"POST", "/v1/sessions", `{"id":"s","labels":{"a":"hidden-body"}}`, secret, map[string]any{"op": "createSession", "session": "", "caller": "me", "status": int64(201), "code": "", "read": int64(39)}},
		{"GET", "/v1/sessions/s?x=hidden-query", "", secret, map[string]any{"op": "getSession", "session": "s", "caller": "me", "status": int64(400), "code": "invalid_parameter"}},
		{"GET", "/v1/sessions/s", "", secret, map[string]any{"op": "getSession", "session": "s", "caller": "me", "status": int64(200), "code": ""}},
		{"GET", "/v1/sessions/hidden.path", "", "hidden-token", map[string]any{"op": "getSession", "session": "", "caller": "", "status": int64(401), "code": "unauthorized", "reason": httpapi.ErrNotMine.Error()}},
		{"GET", "/hidden-path", "", secret, map[string]any{"op": "", "session": "", "caller": "", "status": int64(404), "code": "no_path"}},
		{"GET", "/v1/sessions/s/view", "", secret, map[string]any{"op": "getView", "session": "s", "caller": "me", "status": int64(500), "code": "internal"}},
		{"GET", "/v1/search?text=hidden-text", "", secret, map[string]any{"op": "search", "session": "", "caller": "me", "status": int64(200), "code": ""}},
		{"HEAD", "/v1/sessions/s/events", "", secret, map[string]any{"op": "watchEvents", "session": "s", "caller": "me", "status": int64(200), "code": ""}},
		{"GET", "/v1/openapi.json", "", "", map[string]any{"op": "document", "session": "", "caller": "", "status": int64(200), "code": ""}},
	} {
		w := ask(t, s, c.method, c.path, c.body, "Authorization", "Bearer "+c.token)
		lines := logs.TakeAll()
		if len(lines) != 1 {
			t.Fatalf("%s %s: got %d lines, want one", c.method, c.path, len(lines))
		}
		got := lines[0].ContextMap()
		for name, want := range c.want {
			if got[name] != want {
				t.Errorf("%s %s: %s: got %v, want %v", c.method, c.path, name, got[name], want)
			}
		}
		if got["api"] != "http" || got["remote"] != "192.0.2.1:1234" || got["written"] != int64(w.Body.Len()) {
			t.Errorf("%s %s: got %v, want the API, the address and %d bytes", c.method, c.path, got, w.Body.Len())
		}
		if text := lines[0].Message + " " + strings.Join(texts(got), " "); strings.Contains(text, "hidden") || strings.Contains(text, secret) {
			t.Errorf("%s %s: got %s, want nothing of what the client wrote", c.method, c.path, text)
		}
	}
}

// TestAccessLogOfEveryOperation requests every operation of the table, of a session that does not exist and of one in which nothing runs,
// with ids of nothing. Each request is one line with the caller, the operation, the session, and the status and code of the response.
func TestAccessLogOfEveryOperation(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	cfg := config(t)
	cfg.Access = accesslog.Log(zap.New(core))
	s := newServer(t, cfg)
	ask(t, s, "POST", "/v1/sessions", `{"id":"s"}`)
	logs.TakeAll()
	params, codes := regexp.MustCompile(`\{[^}]*\}`), make(map[string]int)
	for _, session := range []string{"none", "s"} {
		for _, row := range operation.All() {
			if row.Route == "" {
				continue
			}
			method, path := row.HTTP()
			ofSession := strings.Contains(path, "{session}")
			if streams := strings.HasSuffix(path, "/stream") || strings.HasSuffix(path, "/events"); streams && (session == "s" || !ofSession) {
				continue // it ends with the client
			}
			path = params.ReplaceAllString(strings.Replace(path, "{session}", session, 1), "x")
			w := ask(t, s, method, path, `{}`)
			lines := logs.TakeAll()
			if len(lines) != 1 {
				t.Errorf("%s %s: got %d lines, want one", method, path, len(lines))
				continue
			}
			var problem struct {
				Code string `json:"code"`
			}
			if w.Code >= http.StatusBadRequest {
				if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil || problem.Code == "" {
					t.Errorf("%s %s: got %d, %s", method, path, w.Code, w.Body)
				}
			}
			named := ""
			if ofSession {
				named = session
			}
			got := lines[0].ContextMap()
			for name, want := range map[string]any{"op": row.ID, "session": named, "caller": "me", "status": int64(w.Code), "code": problem.Code} {
				if got[name] != want {
					t.Errorf("%s %s: %s: got %v, want %v", method, path, name, got[name], want)
				}
			}
			codes[fmt.Sprint(w.Code)]++
		}
	}
	if codes["404"] < 20 || codes["409"] == 0 || codes["200"] == 0 {
		t.Errorf("got %v, want refusals and requests that had nothing to do", codes)
	}
	t.Log(codes)
}

// TestAccessLogOfFollowedSessions ends streams of one session and of several: the line names them.
func TestAccessLogOfFollowedSessions(t *testing.T) {
	t.Parallel()
	page, err := webpage.New(webpage.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]map[string]any{
		"?session=b:0":             {"session": "b"},
		"?session=b:0&session=a:7": {"session": "", "sessions": "a b"},
	} {
		core, logs := observer.New(zap.InfoLevel)
		cfg := config(t)
		cfg.Page, cfg.Access = page, accesslog.Log(zap.New(core))
		s := newServer(t, cfg)
		ctx, leave := context.WithCancel(t.Context())
		leave()
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/follow"+query, http.NoBody)
		r.Header.Set("Authorization", "Bearer "+secret)
		s.ServeHTTP(httptest.NewRecorder(), r)
		lines := logs.TakeAll()
		if len(lines) != 1 {
			t.Fatalf("%s: got %d lines, want one", query, len(lines))
		}
		got := lines[0].ContextMap()
		for name, text := range want {
			if got["op"] != "follow" || got[name] != text {
				t.Errorf("%s: got %v, want %s %q", query, got, name, text)
			}
		}
	}
}

// texts are the string values of a log line.
func texts(line map[string]any) []string {
	var list []string
	for _, v := range line {
		if text, ok := v.(string); ok {
			list = append(list, text)
		}
	}
	return slices.Sorted(slices.Values(list))
}

// TestAccessOfStream checks that a stream is logged at its end.
func TestAccessOfStream(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var records []accesslog.Record
	cfg := config(t)
	cfg.Access = func(r accesslog.Record) {
		mu.Lock()
		defer mu.Unlock()
		records = append(records, r)
	}
	s, address := listening(t, cfg)
	ask(t, s, "POST", "/v1/sessions", `{"id":"s"}`)
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/v1/sessions/s/events", nil)
	r.Header.Set("Authorization", "Bearer "+secret)
	client := &http.Client{Transport: &http.Transport{}}
	got, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	if len(records) != 1 {
		t.Errorf("while the stream is open: got %d records, want that of the session's creation", len(records))
	}
	mu.Unlock()
	s.Stop(t.Context())
	_ = got.Body.Close()
	mu.Lock()
	defer mu.Unlock()
	if last := records[len(records)-1]; last.Operation != "watchEvents" || last.Caller != "me" || last.Written == 0 || last.Status != http.StatusOK {
		t.Errorf("got %+v, want the stream and its bytes", last)
	}
}
