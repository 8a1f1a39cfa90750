package mcp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/mcp"
)

// TestServerForgetsCallThatRuns has a server over HTTP begin to answer a call that must not run twice, and start again: it does not have
// the session where the client asks for the rest of the answer. It may have run the call, so the call is lost, and is not sent again.
func TestServerForgetsCallThatRuns(t *testing.T) {
	t.Parallel()
	for name, event := range map[string]string{
		"priming event": "id: 1\ndata:\n\n",
		"notification":  "id: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"half\"}}\n\n",
		"no event":      ": nothing\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			h := &restarted{body: "no such session"}
			h.answer = func(w http.ResponseWriter, _ json.RawMessage) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = fmt.Fprint(w, "retry: 1\n"+event)
				h.session.Add(1)
			}
			at := httptest.NewServer(h)
			t.Cleanup(func() { at.CloseClientConnections(); at.Close() })
			server := mcp.Server{Name: "web", URL: at.URL, Timeout: time.Minute}
			s.source(server)
			r := s.result("web__once", "{}")
			runtest.Equal(t, "outcome", r.Outcome, events.OutcomeLost)
			runtest.Equal(t, "calls that the server ran", h.calls.Load(), int64(1))
		})
	}
}

// TestServerForgetsCallBesideAnother has a server over HTTP work on a call that must not run twice, and forget its sessions. The next call
// shows that, and ends the session of both. It runs in another one, and the first call is lost: the server may have run it.
func TestServerForgetsCallBesideAnother(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"plain": "no such session", "json": `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`,
		"json_with_id": `{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"Session not found"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			h := &restarted{body: body}
			begun, over := make(chan struct{}), make(chan struct{})
			h.answer = func(w http.ResponseWriter, id json.RawMessage) {
				if h.calls.Load() == 1 {
					close(begun)
					<-over
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"done"}]}}`, id)
			}
			at := httptest.NewServer(h)
			t.Cleanup(func() { close(over); at.CloseClientConnections(); at.Close() })
			server := mcp.Server{Name: "web", URL: at.URL, Timeout: time.Minute}
			s.source(server)
			first := s.begin("web__once", "{}")
			s.Wait("the first call", begun)
			h.session.Add(1)
			runtest.Equal(t, "result of the second", s.result("web__once", "{}").Text, "done")
			s.AwaitTurn(first, "t1")
			runtest.Equal(t, "outcome of the first", s.resultOf(first).Outcome, events.OutcomeLost)
			runtest.Equal(t, "calls that the server ran", h.calls.Load(), int64(2))
		})
	}
}

// TestServerGoneAfterQuestion has a server over HTTP ask people during a call that must not run twice, and end, or forget its sessions,
// before it gets the answer. It may have begun to run the call, so the call is lost.
func TestServerGoneAfterQuestion(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"ends", "forgets"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			h := &restarted{body: "no such session"}
			h.answer = func(w http.ResponseWriter, id json.RawMessage) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"inputRequests":{"a":{"method":"elicitation/create","params":{"message":"Sure?"}}}}}`, id)
			}
			at := httptest.NewServer(h)
			t.Cleanup(func() { at.CloseClientConnections(); at.Close() })
			server := mcp.Server{Name: "web", URL: at.URL, Timeout: time.Minute}
			s.source(server)
			id := s.begin("web__once", "{}")
			q := s.question(id, "Sure?")
			if end == "forgets" {
				h.session.Add(1)
			} else {
				at.CloseClientConnections()
				at.Close()
			}
			s.give(id, q, true, "")
			s.AwaitTurn(id, "t1")
			runtest.Equal(t, "outcome", s.resultOf(id).Outcome, events.OutcomeLost)
			runtest.Equal(t, "calls that the server received", h.calls.Load(), int64(1))
		})
	}
}
