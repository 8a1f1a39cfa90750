package telemetry

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lash-go/lash/session/api"
)

// genMetrics are the metrics of the conventions for generative AI, with their names in Prometheus:
// gen_ai.client.operation.duration, gen_ai.client.operation.time_to_first_chunk and gen_ai.client.token.usage.
type genMetrics struct {
	duration *prometheus.HistogramVec
	first    *prometheus.HistogramVec
	tokens   *prometheus.HistogramVec
	names    *names // a provider, and the models of request and reply
}

// newGenMetrics uses the buckets that the conventions advise.
func newGenMetrics() genMetrics {
	labels := []string{"gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "gen_ai_response_model"}
	return genMetrics{
		names: new(names),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gen_ai_client_operation_duration_seconds", Help: "Duration of model calls with their retries.", Buckets: prometheus.ExponentialBuckets(0.01, 2, 14),
		}, append(slices.Clone(labels), "error_type")),
		first: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gen_ai_client_operation_time_to_first_chunk_seconds", Help: "Time from the start of the last try of a model call to the first text of its reply.", Buckets: []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10},
		}, labels),
		tokens: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gen_ai_client_token_usage", Help: "Tokens of one model call with its failed tries, by type: input, which a cache may have had, and output.", Buckets: prometheus.ExponentialBuckets(1, 4, 14),
		}, append(slices.Clone(labels), "gen_ai_token_type")),
	}
}

const chat = "chat" // name of the operation

func (g *genMetrics) called(e *api.TraceEvent, seconds float64) {
	failed, model := "", e.Model
	if e.Type == api.TraceModelFailed {
		failed, model = valid(e.Kind), "" // there are few kinds; codes are the provider's
	}
	g.duration.WithLabelValues(append(g.labels(e, model), failed)...).Observe(seconds)
	if e.FirstMillis != nil {
		g.first.WithLabelValues(g.labels(e, model)...).Observe(max(float64(*e.FirstMillis), 0) / 1000)
	}
}

func (g *genMetrics) used(e *api.TraceEvent) {
	g.tokens.WithLabelValues(append(g.labels(e, e.Model), "input")...).Observe(float64(max(inputOf(e.Usage), 0)))
	g.tokens.WithLabelValues(append(g.labels(e, e.Model), "output")...).Observe(float64(max(e.Usage.Output, 0)))
}

func (g *genMetrics) labels(e *api.TraceEvent, model string) []string {
	return append([]string{chat}, g.names.labels(e.Provider, e.Asked, model)...)
}
