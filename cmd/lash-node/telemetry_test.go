package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
)

// TestServeTelemetry looks at a node in another process while it serves, and at
// what it exports.
func TestServeTelemetry(t *testing.T) {
	t.Parallel()
	exported := make(chan []byte, 16)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && r.URL.Path == "/v1/traces" {
			exported <- body
		}
	}))
	defer collector.Close()
	s := served(t, "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--ops", "127.0.0.1:0", "--otlp", collector.URL)
	h, err := session.New(session.Config{Bus: s.open(t), NoPlugins: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Create(limited(t), session.CreateRequest{ID: "s"}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Run(limited(t), "s", session.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: "hi"}}}}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ready", "/metrics": `lash_model_calls_total{model="",outcome="ok",provider="scripted"} 1`} {
		if got := get(t, s.ops+path); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s in it", path, got, want)
		}
	}
	s.stop(t, syscall.SIGTERM)
	select {
	case body := <-exported:
		if !bytes.Contains(body, []byte("gen_ai.conversation.id")) {
			t.Errorf("exported: got %q, want the spans of the turn", body)
		}
	default:
		t.Error("exported: got nothing by the end of the node")
	}
}

// TestServeOpsRefuses gives a node an address that is taken: nothing of it starts.
func TestServeOpsRefuses(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close() //nolint:errcheck // nobody connects
	var out strings.Builder
	args := []string{"serve", "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--ops", taken.Addr().String()}
	code := run(limited(t), args, &streams{Out: io.Discard, Err: &out, Env: func(string) string { return "" }})
	if code != exitFailed || !strings.Contains(out.String(), "--ops: ") {
		t.Errorf("got exit code %d and %q, want a refusal of --ops", code, out.String())
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(limited(t), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read whole
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
