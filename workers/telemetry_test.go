package workers_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/accesslog"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/workers/telemetry"
)

// TestRequestsAreCounted expects few labels for requests of many callers, and of unauthenticated callers with names
// of their own.
func TestRequestsAreCounted(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m, err := telemetry.NewMetrics(reg)
	runtest.NoError(t, err)
	for i := range 1000 {
		m.Access(accesslog.Record{API: accesslog.HTTP, Operation: "getSession", Caller: fmt.Sprintf("c%d", i), Code: "forbidden"})
		m.Access(accesslog.Record{API: accesslog.NATS, Operation: "submit", Caller: fmt.Sprintf("d%d", i)})
		m.Access(accesslog.Record{API: accesslog.HTTP, Session: events.SessionID(fmt.Sprint(i)), Remote: fmt.Sprint(i), Code: "unauthorized", Reason: fmt.Sprint(i)})
	}
	m.Access(accesslog.Record{API: accesslog.NATS, Operation: "submit", Caller: "\xff", Code: "\xff"})
	if got := values(t, reg, "lash_refusals_total", "caller"); len(got) != 202 || !got["(unknown)"] || !got["other"] || got["d1"] {
		t.Errorf("callers: got %d, want 200, other and (unknown)", len(got))
	}
	for label, want := range map[string][]string{"operation": {"getSession", "submit", "none"}, "code": {"ok", "forbidden", "unauthorized", "\ufffd"}, "api": {"http", "nats"}} {
		got := values(t, reg, "lash_requests_total", label)
		for _, w := range want {
			if !got[w] || len(got) != len(want) {
				t.Errorf("%s: got %v, want %v", label, got, want)
			}
		}
	}
}

// call is the record of a model call or a tool call.
func call(e api.TraceEvent) api.TraceRecord {
	return api.TraceRecord{Context: api.TraceContext{Session: "s", Turn: "t"}, Event: e}
}

// values are the values of a label of a metric.
func values(t *testing.T, reg *prometheus.Registry, metric, label string) map[string]bool {
	t.Helper()
	families, err := reg.Gather()
	runtest.NoError(t, err)
	found := make(map[string]bool)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == metric && l.GetName() == label {
					found[l.GetValue()] = true
				}
			}
		}
	}
	return found
}

func setup(t *testing.T) (*telemetry.Metrics, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	m, err := telemetry.NewMetrics(reg)
	runtest.NoError(t, err)
	return m, reg
}

// TestSeriesAtZero has the series that alerts need before the first event.
func TestSeriesAtZero(t *testing.T) {
	t.Parallel()
	_, reg := setup(t)
	families, err := reg.Gather()
	runtest.NoError(t, err)
	got := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	want := map[string]float64{"lash_turn_seconds": 0, "lash_takeovers_total": 0, "lash_refusals_total (unknown) unauthorized": 0}
	for _, reason := range httpapi.RefusedConnections() {
		want["lash_refused_connections_total "+reason] = 0
	}
	for _, end := range []string{
		"finished", "tool_value", "submitted_value", "frame_switch", "cancelled", "incomplete", "invalid_input", "max_turns", "provider_error", "runtime_error", "tool_error", "plugin_abort", "failed",
	} {
		want["lash_turns_total "+end] = 0
	}
	if !maps.Equal(got, want) {
		t.Errorf("series: got %v, want %v", got, want)
	}
}

// TestLabelsAreBounded uses more names than a label may have values. Each label has a limit of its own.
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	m, reg := setup(t)
	for i := range 1000 {
		m.Trace(call(api.TraceEvent{Type: api.TraceModelCompleted, Provider: fmt.Sprint("p", i), Model: "m"}))
	}
	m.Trace(call(api.TraceEvent{Type: api.TraceModelCompleted, Provider: "p0", Model: "late"}))
	m.Trace(call(api.TraceEvent{Type: api.TraceToolCallCompleted, Tool: "late", Outcome: events.OutcomeSuccess}))
	for label, n := range map[string]int{"provider": 201, "model": 2} {
		for _, metric := range []string{"lash_model_calls_total", "lash_model_call_seconds"} {
			if got := values(t, reg, metric, label); len(got) != n {
				t.Errorf("%s of %s: got %d values, want %d", label, metric, len(got), n)
			}
		}
	}
	if got := values(t, reg, "lash_tool_calls_total", "tool"); !got["late"] {
		t.Errorf("tools: got %v, want the one there is", got)
	}
}

// TestInvalidText uses invalid UTF-8 for every text that a session or a provider chooses.
func TestInvalidText(t *testing.T) {
	t.Parallel()
	const bad = "a\xffb"
	m, reg := setup(t)
	exporter := kept{tracetest.NewInMemoryExporter()}
	spans := telemetry.NewSpans(exporter, 1)
	for _, e := range []api.TraceEvent{
		{Type: api.TraceTurnCompleted, Reason: bad, Status: "failed", Code: bad},
		{Type: api.TraceModelCompleted, Provider: bad, Model: bad},
		{Type: api.TraceModelFailed, Provider: bad, Model: bad, Kind: bad, Code: bad},
		{Type: api.TraceToolCallCompleted, Tool: bad, Outcome: bad, CallID: bad},
		{Type: api.TraceTokenUsage, Model: bad, Usage: &api.TokenUsage{Input: 1}},
	} {
		m.Trace(call(e))
		spans.Trace(call(e))
	}
	if got := values(t, reg, "lash_tokens_total", "model"); !got["a\ufffdb"] {
		t.Errorf("models: got %v", got)
	}
	runtest.NoError(t, spans.Stop(t.Context()))
	list := exporter.GetSpans()
	runtest.Equal(t, "spans", len(list), 4)
	for _, s := range list {
		texts := []string{s.Name, s.Status.Description}
		for _, a := range s.Attributes {
			texts = append(texts, a.Value.String())
		}
		for _, text := range texts {
			if !utf8.ValidString(text) {
				t.Errorf("span %q: got %q, want text", s.Name, text)
			}
		}
	}
}

// kept keeps the exported spans after it is stopped.
type kept struct{ *tracetest.InMemoryExporter }

func (kept) Shutdown(context.Context) error { return nil }
