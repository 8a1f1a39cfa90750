package llmtest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// Key is the API key that the suite's endpoints expect.
const Key = "sk-test-51H8nopqRSTuvw-leak-me-not"

// Wire is a dialect of HTTP: how an endpoint encodes replies and which requests it accepts. A Wire has no state.
type Wire interface {
	// Stream encodes a reply as server-sent events: the body with the chunks, and the end. Text is sent byte by byte,
	// even half characters.
	Stream(r Reply) (body, end string)
	// End encodes the end of a reply for a reason, in the spelling of any provider.
	End(reason string) string
	// Whole encodes a reply as the endpoint sends it that does not stream.
	Whole(r Reply) string
	// Value encodes a piece of text whose value is any JSON.
	Value(json string) string
	// Garbage is an event that cannot be read.
	Garbage() string
	// Failure encodes a refusal as a response.
	Failure(e *llm.Error) (status int, body string)
	// FailureEvent encodes an internal error in the middle of a stream.
	FailureEvent(e *llm.Error) string
	// Key is the credential that a request carries.
	Key(r *http.Request) string
	// Read decodes the body of a request. It rejects what the real API rejects. A system message that the dialect
	// cannot express becomes a user message.
	Read(body []byte) (llm.Request, error)
}

// endpoint is a local model endpoint.
type endpoint struct {
	*httptest.Server
	wire  Wire
	shred int // bytes per write and flush; 0 sends all at once
	stop  chan struct{}

	mu      sync.Mutex
	replies []Reply
	calls   int
	sent    []llm.Request
	refused []error
	keys    []string
}

// listen starts an endpoint that responds with replies until the test ends.
func listen(t *testing.T, wire Wire, replies ...Reply) *endpoint {
	t.Helper()
	e := &endpoint{wire: wire, replies: replies, stop: make(chan struct{})}
	e.Server = httptest.NewServer(e)
	t.Cleanup(func() {
		close(e.stop) // releases the handlers that hang
		e.Close()
	})
	return e
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client closed the connection
	}
	reply, err := e.respond(r, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusTeapot) // providers treat this status as not retryable
		return
	}
	if reply.Refusal != nil {
		e.refuse(w, reply.Refusal)
		return
	}
	e.stream(w, r, reply)
}

// respond records a request and returns its reply.
func (e *endpoint) respond(r *http.Request, body []byte) (Reply, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	reply := e.replies[min(e.calls, len(e.replies)-1)]
	e.calls++
	e.keys = append(e.keys, e.wire.Key(r))
	req, err := e.wire.Read(body)
	if err != nil {
		e.refused = append(e.refused, fmt.Errorf("%w in %s", err, short(string(body))))
		return reply, err
	}
	e.sent = append(e.sent, req)
	return reply, nil
}

func (e *endpoint) refuse(w http.ResponseWriter, refusal *llm.Error) {
	status, body := e.wire.Failure(refusal)
	w.Header().Set("Content-Type", "application/json")
	if s := refusal.RetryAfter.Seconds(); s > 0 {
		w.Header().Set("Retry-After", strconv.FormatFloat(s, 'f', -1, 64))
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func (e *endpoint) stream(w http.ResponseWriter, r *http.Request, reply Reply) {
	w.Header().Set("Content-Type", "text/event-stream")
	body, end := e.wire.Stream(reply)
	if reply.Fault == FaultHang && len(reply.Chunks) == 0 {
		body = "" // not even headers
	}
	e.write(w, body)
	switch reply.Fault {
	case FaultNone:
		e.write(w, end)
	case FaultShort:
	case FaultCut:
		panic(http.ErrAbortHandler)
	case FaultGarbage:
		e.write(w, e.wire.Garbage()+end)
	case FaultError:
		e.write(w, e.wire.FailureEvent(&llm.Error{Kind: llm.KindServer, Message: "scripted"}))
	case FaultHang:
		select {
		case <-r.Context().Done():
		case <-e.stop:
		}
	}
}

func (e *endpoint) write(w http.ResponseWriter, text string) {
	out := http.NewResponseController(w)
	for len(text) > 0 {
		n := len(text)
		if e.shred > 0 {
			n = min(n, e.shred)
		}
		_, _ = io.WriteString(w, text[:n])
		_ = out.Flush()
		text = text[n:]
	}
}

// requests are the requests so far. Each one that the real API would reject fails the test.
func (e *endpoint) requests(t *testing.T) []llm.Request {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, err := range e.refused {
		t.Errorf("request: %v", err)
	}
	return e.sent
}

func (e *endpoint) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls
}

// WireFunc returns a provider for an endpoint. It must use client, which the suite closes.
type WireFunc func(t *testing.T, baseURL, key string, client *http.Client) llm.Provider

// TestWire runs [TestProvider] on an adapter with an endpoint that speaks wire, and tests the requests of the
// adapter.
func TestWire(t *testing.T, wire Wire, open WireFunc) {
	t.Helper()
	w := &wireTest{wire: wire, open: open}
	t.Run("provider", func(t *testing.T) {
		t.Parallel()
		TestProvider(t, func(t *testing.T, replies ...Reply) llm.Provider {
			t.Helper()
			p, _ := w.start(t, replies...)
			return p
		})
	})
	t.Run("characters", w.testCharacters)
	t.Run("empty_arguments", w.testEmptyArguments)
	t.Run("key", w.testKey)
	t.Run("status", w.testStatus)
	t.Run("retry_after", w.testRetryAfter)
	t.Run("not_a_stream", w.testNotAStream)
	t.Run("unreachable", w.testUnreachable)
	t.Run("redirect", w.testRedirect)
	t.Run("long_explanation", w.testLongExplanation)
	t.Run("request", w.testRequest)
	t.Run("conversation", w.testConversation)
	t.Run("forms", w.testForms)
	t.Run("any_conversation", w.testAnyConversation)
	t.Run("blob", w.testBlob)
	t.Run("ends", w.testEnds)
	t.Run("values", w.testValues)
	t.Run("content_decides", w.testContentDecides)
	t.Run("errors_inside", w.testErrorsInside)
	t.Run("thinking_between_tags", w.testTags)
	t.Run("every_prefix", w.testEveryPrefix)
	t.Run("silence", w.testSilence)
	t.Run("unopened_thinking", w.testUnopenedThinking)
	t.Run("arguments", w.testArguments)
	t.Run("limit_reached", w.testLimitReached)
	t.Run("lessons", w.testLessons)
}

type wireTest struct {
	wire Wire
	open WireFunc
}

func (w *wireTest) start(t *testing.T, replies ...Reply) (llm.Provider, *endpoint) {
	t.Helper()
	e := listen(t, w.wire, replies...)
	return w.open(t, e.URL, Key, e.Client()), e
}

// serve is for endpoints that do not speak the dialect.
func (w *wireTest) serve(t *testing.T, handler http.HandlerFunc) llm.Provider {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return w.open(t, s.URL, Key, s.Client())
}

// testCharacters sends replies byte by byte.
func (w *wireTest) testCharacters(t *testing.T) {
	t.Parallel()
	owl, text := "🦉", "wörld 🦉 — ünï"
	for name, c := range map[string]struct {
		shred  int
		chunks []string
		want   string
	}{
		"bytes_per_write":     {1, []string{text, text}, text + text},
		"bytes_per_chunk":     {0, strings.Split(text, ""), text},
		"split_between":       {0, []string{"a" + owl[:1], owl[1:3], owl[3:] + "b"}, "a" + owl + "b"},
		"split_in_every_byte": {1, []string{owl[:1], owl[1:2], owl[2:3], owl[3:]}, owl},
		"never_completed":     {0, []string{"a" + owl[:2]}, "a\uFFFD"},
		"not_utf8":            {0, []string{"a\xffb"}, "a\uFFFDb"},
		"lonely_rest":         {0, []string{owl[2:] + "b"}, "\uFFFDb"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, e := w.start(t, Text(c.chunks...))
			e.shred = c.shred
			h := &received{}
			res, err := p.Complete(t.Context(), request(), h.sink)
			if err != nil {
				t.Fatalf("Complete: %v", err)
			}
			want := Text(c.want)
			checkResponse(t, res, want)
			checkDeltas(t, h, want)
		})
	}
}

// testEmptyArguments tests calls of tools without parameters.
func (w *wireTest) testEmptyArguments(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"", " ", "null", "[]"} {
		p, _ := w.start(t, Reply{Stop: events.StopToolUse, Chunks: []Chunk{{Kind: events.PartToolCall, Call: "c1", Tool: "list", Text: args}}})
		res, err := p.Complete(t.Context(), request(), nil)
		if err != nil {
			t.Fatalf("%q: Complete: %v", args, err)
		}
		checkParts(t, res.Parts, []events.Part{{Kind: events.PartToolCall, Call: "c1", Tool: "list", Args: []byte("{}")}})
	}
}

// testRetryAfter sends every form of a wait.
func (w *wireTest) testRetryAfter(t *testing.T) {
	t.Parallel()
	date := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		headers map[string]string
		want    time.Duration
	}{
		"seconds":      {map[string]string{"Retry-After": "7"}, 7 * time.Second},
		"fraction":     {map[string]string{"Retry-After": "0.25"}, 250 * time.Millisecond},
		"milliseconds": {map[string]string{"Retry-After-Ms": "1500", "Retry-After": "99"}, 1500 * time.Millisecond},
		"date":         {map[string]string{"Date": date.Format(http.TimeFormat), "Retry-After": date.Add(40 * time.Second).Format(http.TimeFormat)}, 40 * time.Second},
		"past_date":    {map[string]string{"Date": date.Format(http.TimeFormat), "Retry-After": date.Add(-time.Minute).Format(http.TimeFormat)}, 0},
		"nothing":      {nil, 0},
		"negative":     {map[string]string{"Retry-After": "-3"}, 0},
		"nonsense":     {map[string]string{"Retry-After": "soon"}, 0},
		"absurd":       {map[string]string{"Retry-After": "1e300"}, 1000 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, body := w.wire.Failure(&llm.Error{Kind: llm.KindRateLimit, Message: "slow down"})
			p := w.serve(t, func(rw http.ResponseWriter, _ *http.Request) {
				for k, v := range c.headers {
					rw.Header().Set(k, v)
				}
				rw.WriteHeader(status)
				_, _ = io.WriteString(rw, body)
			})
			_, err := p.Complete(t.Context(), request(), nil)
			if e := checkError(t, err, llm.KindRateLimit); e.RetryAfter != c.want {
				t.Errorf("retry after: got %v, want %v", e.RetryAfter, c.want)
			}
		})
	}
}
