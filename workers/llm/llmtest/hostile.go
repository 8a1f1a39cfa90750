package llmtest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/llm"
)

// testKey expects the key at the endpoint and nowhere else, even if the endpoint repeats it.
func (w *wireTest) testKey(t *testing.T) {
	t.Parallel()
	refusal := Refuse(llm.KindAuth)
	refusal.Refusal.Message = "the key " + Key + " is not one of ours: " + Key
	p, e := w.start(t, refusal)
	_, err := p.Complete(t.Context(), request(), nil)
	if got := e.keys; len(got) != 1 || got[0] != Key {
		t.Errorf("keys sent: got %q, want %q", got, Key)
	}
	if e := checkError(t, err, llm.KindAuth); !strings.Contains(e.Message, "is not one of ours") {
		t.Errorf("message: got %q, want the endpoint's, without the key", e.Message)
	}
	checkSecret(t, err)
	page := w.serve(t, func(rw http.ResponseWriter, r *http.Request) {
		http.Error(rw, "<html>denied: "+w.wire.Key(r)+"</html>", http.StatusForbidden)
	})
	_, err = page.Complete(t.Context(), request(), nil)
	checkError(t, err, llm.KindAuth)
	checkSecret(t, err)
}

// checkSecret searches for the key in everything that could be logged of err.
func checkSecret(t *testing.T, err error) {
	t.Helper()
	for err := err; err != nil; err = errors.Unwrap(err) {
		texts := fmt.Sprintf("%v %+v %#v", err, err, err)
		if e, ok := err.(*llm.Error); ok { //nolint:errorlint // we walk the chain ourselves
			texts += fmt.Sprintf("%+v", *e)
		}
		if strings.Contains(texts, Key) {
			t.Errorf("the key is in the error: %s", strings.ReplaceAll(texts, Key, "<KEY>"))
		}
	}
}

// testStatus sends statuses with bodies without a reason.
func (w *wireTest) testStatus(t *testing.T) {
	t.Parallel()
	for status, kind := range map[int]llm.ErrorKind{
		400: llm.KindRequest, 401: llm.KindAuth, 402: llm.KindAuth, 403: llm.KindAuth, 404: llm.KindRequest, 408: llm.KindTransport,
		409: llm.KindServer, 413: llm.KindOverflow, 418: llm.KindRequest, 422: llm.KindRequest, 424: llm.KindServer, 429: llm.KindRateLimit, 498: llm.KindServer,
		500: llm.KindServer, 502: llm.KindServer, 503: llm.KindServer, 504: llm.KindServer, 529: llm.KindServer,
	} {
		for name, body := range map[string]string{
			"nothing": "", "page": "<html><body>oops</body></html>", "json": "{}", "null": "null", "list": "[]", "cut": `{"error":{"mess`,
		} {
			t.Run(fmt.Sprintf("%d_%s", status, name), func(t *testing.T) {
				t.Parallel()
				var calls atomic.Int64
				p := w.serve(t, func(rw http.ResponseWriter, _ *http.Request) {
					calls.Add(1)
					rw.WriteHeader(status)
					_, _ = io.WriteString(rw, body)
				})
				_, err := p.Complete(t.Context(), request(), nil)
				if e := checkError(t, err, kind); e.Status != status {
					t.Errorf("status: got %d, want %d", e.Status, status)
				}
				if calls.Load() != 1 {
					t.Errorf("calls: got %d, want 1: retries are the caller's", calls.Load())
				}
			})
		}
	}
}

// testNotAStream responds 200 without a stream.
func (w *wireTest) testNotAStream(t *testing.T) {
	t.Parallel()
	_, failure := w.wire.Failure(&llm.Error{Kind: llm.KindRateLimit, Message: "slow down"})
	for name, c := range map[string]struct {
		media, body string
		kind        llm.ErrorKind
	}{
		"nothing":       {"text/event-stream", "", llm.KindTransport},
		"only_comments": {"text/event-stream", ": hello\n\n: still here\n\n", llm.KindTransport},
		"page":          {"text/html; charset=utf-8", "<html>Please log in to the Wi-Fi.</html>", llm.KindMalformed},
		"json":          {"application/json", `{"hello":"world"}`, llm.KindMalformed},
		"failure":       {"application/json", failure, llm.KindRateLimit},
		"words":         {"text/event-stream", "data: Internal Server Error\n\n", llm.KindMalformed},
		"endless_line":  {"text/event-stream", "data: " + strings.Repeat("x", 33<<20), llm.KindMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := w.serve(t, func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", c.media)
				_, _ = io.WriteString(rw, c.body)
			})
			res, err := p.Complete(t.Context(), request(), nil)
			checkError(t, err, c.kind)
			checkNothing(t, res)
		})
	}
}

// testUnreachable calls a port without a listener.
func (w *wireTest) testUnreachable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed at once
	runtest.NoError(t, err)
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := w.open(t, "http://"+addr, Key, client).Complete(t.Context(), request(), nil)
	checkError(t, err, llm.KindTransport)
	checkNothing(t, res)
}

// testRedirect redirects the client, which must not follow with its key.
func (w *wireTest) testRedirect(t *testing.T) {
	t.Parallel()
	_, thief := w.start(t, Text("thanks"))
	p := w.serve(t, func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, thief.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	_, err := p.Complete(t.Context(), request(), nil)
	checkError(t, err, llm.KindRequest)
	if n := thief.count(); n != 0 {
		t.Errorf("redirected calls: got %d, want 0", n)
	}
}

// testLongExplanation sends an error body that is too long to be read to its end.
func (w *wireTest) testLongExplanation(t *testing.T) {
	t.Parallel()
	const kibibytes = 64 << 10 // far above the buffers of sockets
	var sent atomic.Int64
	p := w.serve(t, func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusBadGateway)
		for range kibibytes {
			if _, err := io.WriteString(rw, strings.Repeat("é", 1<<9)); err != nil {
				return
			}
			sent.Add(1)
		}
	})
	_, err := p.Complete(t.Context(), request(), nil)
	checkError(t, err, llm.KindServer)
	if n := sent.Load(); n == kibibytes {
		t.Errorf("error body: got %d KiB read, want the beginning", n)
	}
	long := Refuse(llm.KindRequest)
	long.Refusal.Message = strings.Repeat("é", 10_000)
	p, _ = w.start(t, long)
	_, err = p.Complete(t.Context(), request(), nil)
	checkError(t, err, llm.KindRequest)
}

// testBlob sends a body in a blob: an adapter cannot fetch it and must not drop it.
func (w *wireTest) testBlob(t *testing.T) {
	t.Parallel()
	p, e := w.start(t, Text("ok"))
	req := request()
	req.Messages[0].Parts[0] = events.Part{Kind: events.PartText, Blob: events.BlobRef{Digest: "d", Size: 5}}
	_, err := p.Complete(t.Context(), req, nil)
	checkError(t, err, llm.KindRequest)
	if n := e.count(); n != 0 {
		t.Errorf("calls: got %d, want 0", n)
	}
}
