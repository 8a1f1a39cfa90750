package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/tracing"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// TestServeTelemetry reads the health, metrics and exported traces of a node in another process.
func TestServeTelemetry(t *testing.T) {
	t.Parallel()
	exported := make(chan []byte, 16)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && r.URL.Path == "/v1/traces" {
			exported <- body
		}
	}))
	defer collector.Close()
	s := served(t, "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--ops", "127.0.0.1:0", "--set", "otlp="+collector.URL)
	h, err := session.New(session.Config{Bus: s.open(t), Plugins: session.NoPlugins()})
	runtest.NoError(t, err)
	_, err = h.Create(limited(t), api.CreateRequest{ID: "s"})
	runtest.NoError(t, err)
	if _, err := h.Run(tracing.Received(limited(t), []string{"00-" + clientTrace + "-00f067aa0ba902b7-01"}, nil), "s", api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: "hi"}}}}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ready", "/metrics": `lash_model_calls_total{model="",outcome="ok",provider="scripted"} 1`} {
		if got := get(t, s.ops+path); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s in it", path, got, want)
		}
	}
	s.stop(t, syscall.SIGTERM)
	names := make(map[string]string)
	for len(exported) > 0 {
		var export otlp.TracesData // has the bytes of an ExportTraceServiceRequest
		runtest.NoError(t, proto.Unmarshal(<-exported, &export))
		for _, r := range export.GetResourceSpans() {
			for _, scope := range r.GetScopeSpans() {
				for _, span := range scope.GetSpans() {
					names[span.GetName()] = hex.EncodeToString(span.GetTraceId()) + " " + hex.EncodeToString(span.GetParentSpanId())
				}
			}
		}
	}
	if len(names) != 2 || names["invoke_agent"] != clientTrace+" 00f067aa0ba902b7" || !strings.HasPrefix(names["chat"], clientTrace) {
		t.Errorf("exported by the end of the node: got %v, want the turn under the client's span, and its model call", names)
	}
}

// clientTrace is the trace of a client.
const clientTrace = "4bf92f3577b34da6a3ce929d0e0e4736"

// TestPricesAreReadAgain replaces the prices of a serving node: by those of another model, and by an empty file.
func TestPricesAreReadAgain(t *testing.T) {
	t.Parallel()
	of := func(model string) []byte {
		return fmt.Appendf(nil, `{"date":"2026-01-02","source":"s","models":[{"provider":"openai","names":[%q],"input":1,"output":1}]}`, model)
	}
	prices := file(t, "prices", of("other"))
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"data":[{"id":"m"},{"id":"m1"}]}`)
			return
		}
		_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000000,"completion_tokens":1000000}}`)
	}))
	t.Cleanup(endpoint.Close)
	s := serveModel(t, endpoint.URL, "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--ops", "127.0.0.1:0", "--set", "prices="+prices)
	h, err := session.New(session.Config{Bus: s.open(t), Plugins: session.NoPlugins()})
	runtest.NoError(t, err)
	_, err = h.Create(limited(t), api.CreateRequest{ID: "s", Config: events.Config{Model: "m1"}})
	runtest.NoError(t, err)
	for i, step := range []struct{ replaced, logged, metric string }{
		{"", "", `lash_unpriced_replies_total{model="m1",provider="openai"} 1`},
		{string(of("m1")), "files are loaded again", `lash_cost_dollars_total{model="m1",provider="openai"} 2`},
		{"{}", "is not loaded: what was loaded before stays in use", `lash_unpriced_replies_total{model="m1",provider="openai"} 1`},
	} {
		if step.replaced != "" {
			if err := errors.Join(os.WriteFile(prices+".new", []byte(step.replaced), 0o600), os.Rename(prices+".new", prices), s.cmd.Process.Signal(syscall.SIGHUP)); err != nil {
				t.Fatal(err)
			}
			for s.err.Scan() && !strings.Contains(s.err.Text(), step.logged) {
			}
		}
		_, err = h.Run(limited(t), "s", api.TurnRequest{Input: events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: "hi"}}}})
		runtest.NoError(t, err)
		if got := get(t, s.ops+"/metrics"); !strings.Contains(got, step.metric) {
			t.Errorf("step %d: got no %s", i, step.metric)
		}
	}
	s.stop(t, syscall.SIGTERM)
}

// TestPricesAreRefused starts a node with an invalid price file. The node does not start.
func TestPricesAreRefused(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	args := []string{"serve", "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--set", "prices=" + file(t, "prices", []byte("{}"))}
	code := run(limited(t), args, &streams{Out: io.Discard, Err: &out, Env: func(string) string { return "" }})
	if code != exitFailed || !strings.Contains(out.String(), "setting prices: date: want YYYY-MM-DD") {
		t.Errorf("got exit code %d and %q, want a refusal of prices", code, out.String())
	}
}

// TestServeOpsRefuses starts a node with an address in use. The node does not start.
func TestServeOpsRefuses(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	runtest.NoError(t, err)
	defer listener.Close() //nolint:errcheck // it accepts no connection
	var out strings.Builder
	args := []string{"serve", "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--ops", listener.Addr().String()}
	code := run(limited(t), args, &streams{Out: io.Discard, Err: &out, Env: func(string) string { return "" }})
	if code != exitFailed || !strings.Contains(out.String(), "--ops: ") {
		t.Errorf("got exit code %d and %q, want a refusal of --ops", code, out.String())
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(limited(t), http.MethodGet, url, nil)
	runtest.NoError(t, err)
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	runtest.NoError(t, err)
	defer resp.Body.Close() //nolint:errcheck // read to its end
	body, err := io.ReadAll(resp.Body)
	runtest.NoError(t, err)
	return string(body)
}
