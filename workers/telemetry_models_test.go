package workers_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

// TestHostileModels expects few series for providers that report models of any name.
func TestHostileModels(t *testing.T) {
	t.Parallel()
	m, reg := setup(t)
	for i := range 1000 {
		e := api.TraceEvent{Type: api.TraceModelCompleted, Provider: fmt.Sprint("p", i%30), Asked: fmt.Sprint("a", i), Model: fmt.Sprint("m", i), Usage: &api.TokenUsage{Input: 1}, FirstMillis: new(int64)}
		m.Trace(call(e))
		e.Type = api.TraceTokenUsage
		m.Trace(call(e))
	}
	long := api.TraceEvent{Type: api.TraceTokenUsage, Provider: "p", Asked: "a", Model: strings.Repeat("m", 1<<20), Usage: &api.TokenUsage{Input: 1}}
	m.Trace(call(long))
	for metric, most := range map[string]int{
		"lash_tokens_total": 5 * 201, "lash_unpriced_replies_total": 201, "gen_ai_client_operation_duration_seconds": 201, "gen_ai_client_token_usage": 2 * 201,
		"gen_ai_client_operation_time_to_first_chunk_seconds": 201,
	} {
		if got := series(t, reg, metric); got != most {
			t.Errorf("%s: got %d series, want %d", metric, got, most)
		}
	}
	for _, label := range []string{"provider", "model"} {
		for name := range values(t, reg, "lash_tokens_total", label) {
			if len(name) > 200 {
				t.Errorf("%s: got a name of %d bytes", label, len(name))
			}
		}
	}
}

// series counts the series of a metric.
func series(t *testing.T, reg *prometheus.Registry, metric string) int {
	t.Helper()
	families, err := reg.Gather()
	runtest.NoError(t, err)
	for _, f := range families {
		if f.GetName() == metric {
			return len(f.GetMetric())
		}
	}
	return 0
}

// TestTimeToFirstChunk counts the time of replies with text, in seconds. Replies without text have none.
func TestTimeToFirstChunk(t *testing.T) {
	t.Parallel()
	m, reg := setup(t)
	for _, millis := range []int64{30, 1500} {
		m.Trace(call(api.TraceEvent{Type: api.TraceModelCompleted, Provider: "p", Asked: "a", Model: "m", FirstMillis: &millis}))
	}
	m.Trace(call(api.TraceEvent{Type: api.TraceModelCompleted, Provider: "p", Asked: "a", Model: "m"}))
	families, err := reg.Gather()
	runtest.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "gen_ai_client_operation_time_to_first_chunk_seconds" {
			h := f.GetMetric()[0].GetHistogram()
			if h.GetSampleCount() != 2 || h.GetSampleSum() < 1.5299 || h.GetSampleSum() > 1.5301 {
				t.Errorf("got %d replies and %v s, want 2 and 1.53 s", h.GetSampleCount(), h.GetSampleSum())
			}
			return
		}
	}
	t.Error("there is no such metric")
}
