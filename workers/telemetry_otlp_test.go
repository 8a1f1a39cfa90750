package workers_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/telemetry"
)

// TestOTLPAnswers sends a span to collectors that answer each way the protocol knows, and to none.
func TestOTLPAnswers(t *testing.T) {
	t.Parallel()
	const echoed = "Bearer secret"
	answer := func(status int, body string, header ...string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	ok := answer(200, "")
	for name, c := range map[string]struct {
		answers []func(http.ResponseWriter)
		want    string // in the error; empty is none
	}{
		"taken":        {[]func(http.ResponseWriter){ok}, ""},
		"busy":         {[]func(http.ResponseWriter){answer(429, echoed, "Retry-After", "1"), answer(503, echoed), answer(502, echoed), answer(504, echoed), ok}, ""},
		"date":         {[]func(http.ResponseWriter){answer(503, "", "Retry-After", "Fri, 31 Dec 1999 23:59:59 GMT"), ok}, ""},
		"refused":      {[]func(http.ResponseWriter){answer(400, echoed)}, "400 Bad Request"},
		"unauthorized": {[]func(http.ResponseWriter){answer(401, echoed)}, "401 Unauthorized"},
		"broken":       {[]func(http.ResponseWriter){answer(500, echoed)}, "500 Internal Server Error"},
		"moved":        {[]func(http.ResponseWriter){answer(307, "", "Location", "/elsewhere")}, "307 Temporary Redirect"},
		"partial":      {[]func(http.ResponseWriter){answer(200, "\x0a\x0a\x08\x03\x12\x06secret")}, "rejected 3 of them"}, // partial_success{rejected_spans: 3, error_message: "secret"}
		"warning":      {[]func(http.ResponseWriter){answer(200, "\x0a\x08\x12\x06secret")}, ""},                           // partial_success{error_message: "secret"}
		"no_protobuf":  {[]func(http.ResponseWriter){answer(200, "<html>")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var data otlp.TracesData
				body, err := io.ReadAll(r.Body)
				if err == nil {
					err = proto.Unmarshal(body, &data)
				}
				if err != nil || len(data.GetResourceSpans()) != 1 || r.Header.Get("Authorization") != echoed || r.Header.Get("Content-Type") != "application/x-protobuf" {
					t.Errorf("got %v, %d resources, headers %v", err, len(data.GetResourceSpans()), r.Header)
				}
				if requests++; requests > len(c.answers) {
					t.Errorf("got request %d, want %d", requests, len(c.answers))
					requests = len(c.answers)
				}
				c.answers[requests-1](w)
			}))
			defer server.Close()
			exporter := telemetry.NewOTLP(server.URL, http.Header{"Authorization": {echoed}})
			err := exporter.ExportSpans(t.Context(), tracetest.SpanStubs{{Name: "a"}}.Snapshots())
			if got := errorText(err); (c.want == "") != (err == nil) || !strings.Contains(got, c.want) || strings.Contains(got, "secret") || requests != len(c.answers) {
				t.Errorf("got %q after %d requests, want %q after %d", got, requests, c.want, len(c.answers))
			}
			runtest.WantError(t, "shutdown", exporter.Shutdown(t.Context()), nil)
		})
	}
}

// TestOTLPEnds repeats a request until the context of the export ends.
func TestOTLPEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30e9)
		defer cancel()
		exporter := telemetry.NewOTLP("http://127.0.0.1:1", nil)
		if err := exporter.ExportSpans(ctx, tracetest.SpanStubs{{Name: "a"}}.Snapshots()); err == nil || ctx.Err() == nil {
			t.Errorf("got %v with the context at %v, want an error when it has ended", err, ctx.Err())
		}
	})
}

// TestOTLPWaits has a collector that requests a wait of more seconds than a duration has: the export waits until its context ends.
func TestOTLPWaits(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "10000000000")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := telemetry.NewOTLP(server.URL, nil).ExportSpans(ctx, tracetest.SpanStubs{{Name: "a"}}.Snapshots()); err == nil || ctx.Err() == nil {
		t.Errorf("got %v with the context at %v, want an error when it has ended", err, ctx.Err())
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
