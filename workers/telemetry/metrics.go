package telemetry

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/accesslog"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/prices"
)

// Metrics counts events of sessions. Labels have few values: no session, no turn.
type Metrics struct {
	turns       *prometheus.CounterVec
	turnSeconds prometheus.Histogram
	takeovers   prometheus.Counter
	models      *prometheus.CounterVec
	modelTime   *prometheus.HistogramVec
	tools       *prometheus.CounterVec
	toolTime    *prometheus.HistogramVec
	tokens      *prometheus.CounterVec
	cost        *prometheus.CounterVec
	unpriced    *prometheus.CounterVec
	gen         genMetrics
	prices      atomic.Pointer[prices.Prices]
	requests    *prometheus.CounterVec
	refused     *prometheus.CounterVec
	closed      *prometheus.CounterVec

	providerNames, modelNames, toolNames, callerNames names
	billed                                            names // a provider and a model
}

// names limits the values of a label that users choose to maxNames.
type names struct {
	mu   sync.Mutex
	seen map[string]bool
}

// Limits of the values of a label: their number and their bytes. Further and longer values are "other".
const (
	maxNames = 200
	maxName  = 200
)

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "lash", Name: name, Help: help}, labels)
	}
	calls := prometheus.ExponentialBuckets(0.005, 3, 10) // 5 ms to 98 s
	m := &Metrics{
		turns:       counter("turns_total", "Turns that ended on this node, by how.", "end"),
		turnSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "lash", Name: "turn_seconds", Help: "From a turn's start to its end.", Buckets: prometheus.ExponentialBuckets(0.01, 3, 12)}),
		takeovers:   prometheus.NewCounter(prometheus.CounterOpts{Namespace: "lash", Name: "takeovers_total", Help: "Starts, beyond the first, of the turns that ended on this node: takeovers, and starts after an approval."}),
		models:      counter("model_calls_total", "Model calls, by outcome: ok, or the kind of failure.", "provider", "model", "outcome"),
		modelTime:   prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "lash", Name: "model_call_seconds", Help: "Duration of model calls with their retries.", Buckets: calls}, []string{"provider", "model"}),
		tools:       counter("tool_calls_total", "Tool calls, by outcome.", "tool", "outcome"),
		toolTime:    prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "lash", Name: "tool_call_seconds", Help: "Duration of tool calls with their retries.", Buckets: calls}, []string{"tool"}),
		tokens:      counter("tokens_total", "Tokens used, by kind: input, output, cache_read, cache_write, and reasoning, which is part of output.", "provider", "model", "kind"),
		cost:        counter("cost_dollars_total", "What tokens of models that have a price cost, in US dollars.", "provider", "model"),
		unpriced:    counter("unpriced_replies_total", "Replies of models that have no price. Their tokens are in no cost.", "provider", "model"),
		gen:         newGenMetrics(),
		requests:    counter("requests_total", "Requests of clients that ended, by API, operation and code of the refusal or failure; done ones have the code ok.", "api", "operation", "code"),
		refused:     counter("refusals_total", "Requests that were refused or failed, by caller and code. Those that were not authenticated are one caller.", "caller", "code"),
		closed:      counter("refused_connections_total", "Connections of the HTTP server that were closed before a request on them was authenticated, or with a request that could not be read, by reason: limit, timeout, tls, unreadable or http2.", "reason"),
	}
	shipped, err := prices.Default()
	if err != nil {
		return nil, err
	}
	m.SetPrices(shipped)
	for _, c := range []prometheus.Collector{m.cost, m.unpriced, m.gen.duration, m.gen.first, m.gen.tokens, m.turns, m.turnSeconds, m.takeovers, m.models, m.modelTime, m.tools, m.toolTime, m.tokens, m.requests, m.refused, m.closed} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	m.zero()
	return m, nil
}

// zero makes the series whose labels are known before their first event, so that a rate counts that event too.
func (m *Metrics) zero() {
	for _, end := range events.TurnEnds() {
		m.turns.WithLabelValues(string(end))
	}
	m.refused.WithLabelValues(unknown, "unauthorized")
	for _, reason := range []string{"limit", "timeout", "tls", "unreadable", "http2"} {
		m.closed.WithLabelValues(reason)
	}
}

// RefusedConnection counts a connection that was closed before a request on it was authenticated. reason is of a fixed list.
func (m *Metrics) RefusedConnection(reason string) { m.closed.WithLabelValues(reason).Inc() }

// SetPrices sets the prices of usage from now on.
func (m *Metrics) SetPrices(p *prices.Prices) { m.prices.Store(p) }

// Trace counts a record.
func (m *Metrics) Trace(r api.TraceRecord) {
	e := &r.Event
	seconds := float64(e.Millis) / 1000
	switch e.Type {
	case api.TraceTurnCompleted:
		m.turns.WithLabelValues(valid(string(e.Reason))).Inc()
		m.turnSeconds.Observe(seconds)
		m.takeovers.Add(float64(max(e.Attempts-1, 0)))
	case api.TraceModelCompleted, api.TraceModelFailed:
		outcome := "ok"
		if e.Type == api.TraceModelFailed {
			outcome = valid(e.Kind)
		}
		provider, model := m.providerNames.label(e.Provider), m.modelNames.label(e.Model)
		m.models.WithLabelValues(provider, model, outcome).Inc()
		m.modelTime.WithLabelValues(provider, model).Observe(seconds)
		m.gen.called(e, seconds)
	case api.TraceToolCallCompleted:
		tool := m.toolNames.label(e.Tool)
		m.tools.WithLabelValues(tool, outcomeOf(e.Outcome)).Inc()
		m.toolTime.WithLabelValues(tool).Observe(seconds)
	case api.TraceTokenUsage:
		m.used(e)
	default: // a start, or a plugin's own record
	}
}

// unknown is the caller of requests without authentication, under any name. No caller has this name.
const unknown = "(unknown)"

// Access counts a request that ended.
func (m *Metrics) Access(r accesslog.Record) {
	code := cmp.Or(valid(r.Code), "ok")
	m.requests.WithLabelValues(r.API, cmp.Or(r.Operation, "none"), code).Inc()
	if r.Code == "" {
		return
	}
	caller := unknown
	if r.Caller != "" {
		caller = m.callerNames.label(r.Caller)
	}
	m.refused.WithLabelValues(caller, code).Inc()
}

func (m *Metrics) used(e *api.TraceEvent) {
	u := e.Usage
	if u == nil {
		return
	}
	of := m.billed.labels(e.Provider, e.Model)
	if dollars, ok := m.prices.Load().Cost(e.Provider, e.Model, events.Usage{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite}); ok {
		m.cost.WithLabelValues(of...).Add(dollars)
	} else {
		m.unpriced.WithLabelValues(of...).Inc()
	}
	m.gen.used(e)
	for kind, n := range map[string]int64{
		"input": u.Input, "output": u.Output, "cache_read": u.CacheRead, "cache_write": u.CacheWrite, "reasoning": u.Reasoning,
	} {
		m.tokens.WithLabelValues(append(slices.Clone(of), kind)...).Add(float64(max(n, 0)))
	}
}

func outcomeOf(o events.Outcome) string {
	if o == events.OutcomeSuccess {
		return "ok"
	}
	return valid(string(o))
}

// label is the label value of a name.
func (n *names) label(name string) string { return n.labels(name)[0] }

// labels are the label values of a combination of names. There are at most maxNames combinations.
func (n *names) labels(list ...string) []string {
	others := slices.Repeat([]string{other}, len(list))
	for i := range list {
		if list[i] = valid(list[i]); len(list[i]) > maxName {
			return others
		}
	}
	key := strings.Join(list, "\x00")
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.seen[key] {
		if len(n.seen) >= maxNames {
			return others
		}
		if n.seen == nil {
			n.seen = make(map[string]bool)
		}
		n.seen[key] = true
	}
	return list
}

// other is the label value above the limits.
const other = "other"

// valid is a text that is allowed in a label or an attribute: Prometheus panics on invalid text, and OTLP drops the
// whole batch.
func valid(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
