package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/mcp"
)

// restarted is a server over streamable HTTP that forgets its sessions.
type restarted struct {
	hostileHTTP
	session atomic.Int64 // the current one
	body    string       // of the answer to a request of another session
	missed  atomic.Int64 // requests of other sessions
}

// ServeHTTP implements [http.Handler].
func (h *restarted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := fmt.Sprint(h.session.Load())
	if named := r.Header.Get("Mcp-Session-Id"); named != "" && named != now {
		h.missed.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprint(w, h.body)
		return
	}
	w.Header().Set("Mcp-Session-Id", now)
	h.hostileHTTP.ServeHTTP(w, r)
}

// TestServerForgetsSession has a server over HTTP start again between two calls, so that it does not have the session any more. The next
// call, which must not run twice, runs once, in a session of its own: the server says that it has not handled the first request.
func TestServerForgetsSession(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"plain": "no such session", "json": `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`,
		"json_with_id": `{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"Session not found"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			h := &restarted{body: body}
			h.answer = func(w http.ResponseWriter, id json.RawMessage) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"done"}]}}`, id)
			}
			at := httptest.NewServer(h)
			t.Cleanup(func() { at.CloseClientConnections(); at.Close() })
			server := mcp.Server{Name: "web", URL: at.URL, Timeout: time.Minute}
			s.source(server)
			for n := range 3 {
				runtest.Equal(t, "result", s.result("web__once", "{}").Text, "done")
				runtest.Equal(t, "calls that the server ran", h.calls.Load(), int64(n+1))
				h.session.Add(1)
			}
			if h.missed.Load() == 0 {
				t.Error("no request named a session that the server does not have")
			}
		})
	}
}

// TestServerHasNoSession has a server answer every call with 404. The call fails as one that has not run.
func TestServerHasNoSession(t *testing.T) {
	t.Parallel()
	s := start(t)
	h := &restarted{}
	h.answer = func(w http.ResponseWriter, _ json.RawMessage) { w.WriteHeader(http.StatusNotFound) }
	at := httptest.NewServer(h)
	t.Cleanup(func() { at.CloseClientConnections(); at.Close() })
	server := mcp.Server{Name: "web", URL: at.URL, Timeout: time.Minute}
	s.source(server)
	r := s.result("web__once", "{}")
	runtest.Equal(t, "outcome", r.Outcome, events.OutcomeFailure)
	runtest.Equal(t, "class of "+r.Text, r.Class, plugin.ClassUnavailable)
}

// TestServerIsNotThere ends a server over HTTP. No server receives the call, so it fails, and is not lost.
func TestServerIsNotThere(t *testing.T) {
	t.Parallel()
	s := start(t)
	at := httptest.NewServer(&hostileHTTP{})
	t.Cleanup(at.Close)
	server := mcp.Server{Name: "web", URL: at.URL, Timeout: time.Minute}
	s.source(server)
	at.CloseClientConnections()
	at.Close()
	r := s.result("web__once", "{}")
	runtest.Equal(t, "outcome", r.Outcome, events.OutcomeFailure)
	runtest.Equal(t, "class of "+r.Text, r.Class, plugin.ClassUnavailable)
}

// TestLostReplyRunsAgain has a server lose its answers to a call that may repeat: it is sent again, and three times at most.
func TestLostReplyRunsAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ lost, calls int64 }{"once": {1, 2}, "twice": {2, 3}, "always": {9, 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			h := &hostileHTTP{tools: `[{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]`}
			h.answer = func(w http.ResponseWriter, id json.RawMessage) {
				if h.calls.Load() <= c.lost {
					panic(http.ErrAbortHandler)
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"done"}]}}`, id)
			}
			server := s.hostile(h)
			s.source(server)
			r := s.result("web__look", "{}")
			runtest.Equal(t, "calls that the server received", h.calls.Load(), c.calls)
			if c.lost < c.calls {
				runtest.Equal(t, "result", r.Text, "done")
			} else {
				runtest.Equal(t, "outcome", r.Outcome, events.OutcomeFailure)
			}
		})
	}
}

// TestHangingRequests has a server over HTTP leave open each request that is no call: the one for its stream, those that end its
// session, and the answers to its pings, of which it sends thousands during a call. Its calls work, few requests are open at once, and
// the source ends.
func TestHangingRequests(t *testing.T) { //nolint:paralleltest // it counts the goroutines of the process
	s := start(t)
	var open, most atomic.Int64
	hang := func(r *http.Request) {
		if n := open.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer open.Add(-1)
		<-r.Context().Done()
	}
	h := &hostileHTTP{}
	h.answer = func(w http.ResponseWriter, id json.RawMessage) {
		w.Header().Set("Content-Type", "text/event-stream")
		for n := range 3000 {
			_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"p%d\",\"method\":\"ping\"}\n\n", n)
		}
		_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"done\"}]}}\n\n", id)
	}
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Mcp-Session-Id", "s")
		if r.Method != http.MethodPost {
			hang(r)
			return
		}
		body := readAll(r)
		if !strings.Contains(body, `"method"`) { // an answer
			hang(r)
			return
		}
		h.serve(w, r, []byte(body))
	}))
	t.Cleanup(func() { at.CloseClientConnections(); at.Close() })
	server := mcp.Server{Name: "web", URL: at.URL, Timeout: time.Minute}
	source := s.source(server)
	before := runtime.NumGoroutine()
	runtest.Equal(t, "result", s.result("web__once", "{}").Text, "done")
	if n := most.Load(); n == 0 || n > 40 {
		t.Errorf("got %d open requests, want at most those of the limit", n)
	}
	if more := runtime.NumGoroutine() - before; more > 600 { // of both ends
		t.Errorf("got %d goroutines more", more)
	}
	ctx, cancel := context.WithTimeout(s.Ctx, 2*time.Minute) // twelve times the limit of a request
	defer cancel()
	runtest.WantError(t, "stop", source.Stop(ctx), nil)
}

// TestResourcesAreReadAgain has a server say that its resource may be kept for an hour. Each read gets what the server has now: the client
// keeps nothing, as it would keep every resource that was ever read.
func TestResourcesAreReadAgain(t *testing.T) {
	t.Parallel()
	s := start(t)
	server := s.own("srv")
	s.source(server)
	for n := range 3 {
		runtest.Equal(t, "text", s.result("srv__read_resource", `{"uri":"test://count"}`).Text, fmt.Sprintf("[resource test://count]\nread %d", n+1))
	}
}
