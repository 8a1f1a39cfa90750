package llm_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/llm"
)

// endless is a body of the same lines without an end.
type endless string

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for len(p)-n >= len(e) {
		n += copy(p[n:], e)
	}
	return max(n, copy(p, e)), nil
}

func (endless) Close() error { return nil }

// TestLongEndlessStream expects a stream without an end to fail as malformed.
func TestLongEndlessStream(t *testing.T) {
	t.Parallel()
	events, event := 0, "event: "+strings.Repeat("x", 1<<10)+"\ndata: {\"x\":1}\n\n"
	wire := llm.Wire{Encode: encoded(nil), Decode: func(llm.ServerEvent) (llm.Update, error) {
		events++
		return llm.Update{}, nil
	}}
	_, err := opened(t, wire, llm.Config{BaseURL: "https://host/v1/", HTTPClient: answering(endless(event))}).Complete(t.Context(), llm.Request{}, nil)
	if e, ok := errors.AsType[*llm.Error](err); !ok || e.Kind != llm.KindMalformed || events < llm.MaxReplyBytes/len(event) {
		t.Errorf("got %v after %d events, want a malformed reply, after at least those of the largest reply", err, events)
	}
}

// round is a transport made of a function.
type round func(*http.Request) (*http.Response, error)

func (f round) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answering is a client whose responses have a body.
func answering(body io.ReadCloser) *http.Client {
	return &http.Client{Transport: round(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body, Request: r}, nil
	})}
}

// encoded makes every request one body.
func encoded(body llm.Object) func(*llm.Prepared) (llm.Object, error) {
	return func(*llm.Prepared) (llm.Object, error) { return body, nil }
}

func opened(t *testing.T, wire llm.Wire, cfg llm.Config) *llm.Endpoint {
	t.Helper()
	e, err := llm.NewEndpoint(wire, cfg)
	runtest.NoError(t, err)
	return e
}

// TestRequest sends nothing but what the endpoint was given, and what every request has.
func TestRequest(t *testing.T) {
	t.Parallel()
	var got *http.Request
	body := ""
	wire := llm.Wire{Path: "chat/completions", Models: "models?limit=1", Header: http.Header{"X-Own": {"1"}}, Encode: encoded(llm.Object{"t": "<a&b>"})}
	e := opened(t, wire, llm.Config{BaseURL: "https://host/a%2Fb/v1/", HTTPClient: &http.Client{Transport: round(func(r *http.Request) (*http.Response, error) {
		got = r
		if r.Body != nil {
			var b strings.Builder
			runtest.WantError(t, "write", r.Write(&b), nil)
			_, body, _ = strings.Cut(b.String(), "\r\n\r\n")
		}
		return nil, errors.New("no network")
	})}})
	_, _ = e.Complete(t.Context(), llm.Request{}, nil)
	if want := "https://host/a%2Fb/v1/chat/completions"; got.URL.String() != want {
		t.Errorf("got %s, want %s", got.URL, want)
	}
	if want := `{"t":"<a&b>"}`; strings.TrimSpace(body) != want {
		t.Errorf("got body %q, want %q", body, want)
	}
	want := map[string]string{"X-Own": "1", "User-Agent": "lash", "Content-Type": "application/json", "Accept": "text/event-stream, application/json;q=0.5"}
	checkHeader(t, got.Header, want)
	_, _ = e.Models(t.Context())
	if want := "https://host/a%2Fb/v1/models?limit=1"; got.URL.String() != want {
		t.Errorf("got %s, want %s", got.URL, want)
	}
	checkHeader(t, got.Header, map[string]string{"X-Own": "1", "User-Agent": "lash", "Accept": "application/json"})
}

// TestModels reads lists in all forms.
func TestModels(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"object":"list","data":[{"id":"models/a"},{"id":"b"}]}`, `[{"id":"models/a"},{"id":"b"}]`} {
		e := opened(t, llm.Wire{Models: "models"}, llm.Config{BaseURL: "https://host", HTTPClient: &http.Client{Transport: &answers{status: 200, body: body}}})
		for model, known := range map[string]bool{"models/a": true, "a": true, "b": true, "c": false} {
			warned := false
			if err := llm.CheckModel(t.Context(), e, model, func(error) { warned = true }); err != nil || warned == known {
				t.Errorf("%s of %s: got %v, and a warning: %v", model, body, err, warned)
			}
		}
	}
}

func checkHeader(t *testing.T, got http.Header, want map[string]string) {
	t.Helper()
	for name := range got {
		runtest.Equal(t, name, got.Get(name), want[name])
	}
	if len(got) != len(want) {
		t.Errorf("got headers %v, want %v", got, want)
	}
}
