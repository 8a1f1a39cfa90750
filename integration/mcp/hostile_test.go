package mcp

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/mcp"
)

// hostileHTTP is a server over streamable HTTP with the tool once. answer answers its calls, and stream the request for its stream.
type hostileHTTP struct {
	tools  string        // the JSON of its list; empty: the tool once
	list   func() string // the result of a request for its tools; nil: those
	answer func(w http.ResponseWriter, id json.RawMessage)
	stream func(w http.ResponseWriter)
	calls  atomic.Int64
	gets   atomic.Int64
}

// ServeHTTP implements [http.Handler].
func (h *hostileHTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && h.stream != nil {
		h.gets.Add(1)
		h.stream(w)
		return
	}
	h.serve(w, r, []byte(readAll(r)))
}

// readAll is the body of a request.
func readAll(r *http.Request) string {
	data, _ := io.ReadAll(r.Body) // without the rest it is no JSON
	return string(data)
}

func (h *hostileHTTP) serve(w http.ResponseWriter, r *http.Request, body []byte) {
	var in struct {
		ID     json.RawMessage
		Method string
	}
	if r.Method != http.MethodPost || json.Unmarshal(body, &in) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	result := map[string]string{
		"initialize": `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"h","version":"1"}}`,
		"tools/list": `{"tools":` + cmp.Or(h.tools, `[{"name":"once","inputSchema":{"type":"object"}}]`) + `}`,
	}[in.Method]
	if in.Method == "tools/list" && h.list != nil {
		result = h.list()
	}
	switch {
	case in.Method == "tools/call":
		h.calls.Add(1)
		h.answer(w, in.ID)
	case in.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case result == "":
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}`, in.ID)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, in.ID, result)
	}
}

func (s *setting) hostile(h *hostileHTTP) mcp.Server {
	s.T.Helper()
	at := httptest.NewServer(h)
	s.T.Cleanup(func() { at.CloseClientConnections(); at.Close() })
	return mcp.Server{Name: "web", URL: at.URL + "/mcp", Timeout: time.Minute}
}

// endless writes a piece again and again, 1 GiB in all.
func endless(w io.Writer, piece string) {
	piece = strings.Repeat(piece, (1<<20)/len(piece))
	for range 1 << 10 {
		if _, err := io.WriteString(w, piece); err != nil {
			return
		}
	}
}

// TestEndlessAnswers has servers answer with 1 GiB, in each form in which a client reads an answer. The client gives each up
// before it has read much of it, and the call that must not run twice is lost. This test measures the process, so it is alone.
func TestEndlessAnswers(t *testing.T) { //nolint:paralleltest // see above
	for name, c := range map[string]struct {
		kind, encoding string
		status         int
		piece          string
	}{
		"json":        {"application/json", "", http.StatusOK, " "},
		"compressed":  {"application/json", "gzip", http.StatusOK, " "},
		"refusal":     {"application/json", "", http.StatusBadRequest, " "},
		"line":        {"text/event-stream", "", http.StatusOK, ":"},
		"event":       {"text/event-stream", "", http.StatusOK, "data: " + strings.Repeat("x", 65000) + "\n"},
		"compressed2": {"text/event-stream; charset=utf-8", "gzip", http.StatusOK, "data: " + strings.Repeat("x", 65000) + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			server := s.hostile(&hostileHTTP{answer: func(w http.ResponseWriter, _ json.RawMessage) {
				w.Header().Set("Content-Type", c.kind)
				to := io.Writer(w)
				if c.encoding != "" {
					w.Header().Set("Content-Encoding", c.encoding)
					packed := gzip.NewWriter(w)
					defer func() { _ = packed.Close() }()
					to = packed
				}
				w.WriteHeader(c.status)
				endless(to, c.piece)
			}})
			s.source(server)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			want := events.OutcomeLost
			if c.status >= http.StatusBadRequest {
				want = events.OutcomeFailure // it has not run
			}
			runtest.Equal(t, "outcome", s.result("web__once", "{}").Outcome, want)
			runtime.ReadMemStats(&after)
			if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 512 {
				t.Errorf("got %d MiB allocated, want less than 512 of an answer of 1 024", used)
			}
		})
	}
}

// TestUnansweredCalls has a server fail after it received a call, in each way that the client calls a rejection: the call may
// have run, so it is lost. A call that no server received fails, and may be repeated.
func TestUnansweredCalls(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(http.ResponseWriter, json.RawMessage){
		"cut": func(http.ResponseWriter, json.RawMessage) { panic(http.ErrAbortHandler) },
		"elsewhere": func(w http.ResponseWriter, _ json.RawMessage) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(307)
		},
		"loop":    func(w http.ResponseWriter, _ json.RawMessage) { w.Header().Set("Location", "/mcp"); w.WriteHeader(302) },
		"gateway": func(w http.ResponseWriter, _ json.RawMessage) { w.WriteHeader(http.StatusBadGateway) },
		"timeout": func(w http.ResponseWriter, _ json.RawMessage) { w.WriteHeader(http.StatusGatewayTimeout) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			h := &hostileHTTP{answer: answer}
			server := s.hostile(h)
			s.source(server)
			runtest.Equal(t, "outcome", s.result("web__once", "{}").Outcome, events.OutcomeLost)
			runtest.Equal(t, "calls that the server received", h.calls.Load(), 1)
		})
	}
	t.Run("refusal", func(t *testing.T) {
		t.Parallel()
		s := start(t)
		server := s.hostile(&hostileHTTP{answer: func(w http.ResponseWriter, id json.RawMessage) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"not today"}}`, id)
		}})
		s.source(server)
		r := s.result("web__once", "{}")
		runtest.Equal(t, "outcome", r.Outcome, events.OutcomeFailure)
		runtest.Equal(t, "text", r.Text, "[failed] not today")
	})
}

// TestStreamsAreOpenedSlowly has a server end each stream at once, and say that the client is to come again at once.
func TestStreamsAreOpenedSlowly(t *testing.T) {
	t.Parallel()
	s := start(t)
	h := &hostileHTTP{}
	h.stream = func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "id: %d\nretry: 1\ndata:\n\n", h.gets.Load())
	}
	server := s.hostile(h)
	began := time.Now()
	s.source(server)
	s.AwaitPolling("some streams", func() bool { return h.gets.Load() > 10 })
	s.AwaitPolling("more streams", func() bool { return h.gets.Load() > 14 }) // without a limit they follow at once
	if got, most := h.gets.Load(), 12+int64(time.Since(began)/time.Second); got > most {
		t.Errorf("got %d streams in %v, want %d at most", got, time.Since(began), most)
	}
}

// TestFrozenServer freezes a server, so that it does not read its input. A call with more arguments than a pipe takes ends the
// server, and runs in the next one.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	s := start(t)
	server := s.own("srv")
	s.source(server)
	pid, err := strconv.Atoi(s.result("srv__look", `{"do":"pid"}`).Text)
	runtest.WantError(t, "pid", err, nil)
	runtest.WantError(t, "freeze", syscall.Kill(pid, syscall.SIGSTOP), nil)
	s.AwaitPolling("the freeze", func() bool { // the threads of a process stop one after the other
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") T ")
	})
	once := s.begin("srv__once", `{"do":"x"}`)
	runtest.Equal(t, "outcome", s.result("srv__look", `{"do":"y","text":"`+strings.Repeat("x", 256<<10)+`"}`).Outcome, events.OutcomeSuccess)
	s.AwaitTurn(once, "t1")
	runtest.Equal(t, "the call that must not run twice", s.resultOf(once).Outcome, events.OutcomeLost)
}
