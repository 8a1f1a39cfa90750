package telemetry

import (
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// made is the kind of a span: an operation of the conventions, its object, and the span kind.
type made struct {
	operation attribute.KeyValue
	target    string
	kind      trace.SpanKind
}

func (m made) name() string {
	return valid(strings.TrimRight(m.operation.Value.AsString()+" "+m.target, " "))
}

// attributes are the attributes of a span, with the names of the conventions.
func attributes(r *api.TraceRecord, m made) []attribute.KeyValue {
	c, e := &r.Context, &r.Event
	list := tags{m.operation, semconv.GenAIConversationID(valid(string(c.Session))), attribute.String("lash.turn", valid(string(c.Turn)))}
	list.text(semconv.GenAIAgentNameKey, c.Agent)
	list.text(semconv.ErrorTypeKey, failure(e))
	list.number("lash.attempts", e.Attempts)
	if c.Iteration != nil {
		list = append(list, attribute.Int64("lash.iteration", *c.Iteration))
	}
	switch e.Type {
	case api.TraceTurnCompleted:
		list.text(semconv.GenAIAgentIDKey, string(c.Session))
		list.text(semconv.GenAIProviderNameKey, e.Provider)
		list.text(semconv.GenAIRequestModelKey, e.Model)
		list.text("lash.end", string(e.Reason))
	case api.TraceModelCompleted, api.TraceModelFailed:
		list.model(e)
	default:
		list.text(semconv.GenAIToolNameKey, toolOf(e))
		list.text(semconv.GenAIToolTypeKey, "function") // lash runs it, not the provider
		list.text(semconv.GenAIToolCallIDKey, string(e.CallID))
		list.text(semconv.GenAIToolDescriptionKey, e.About)
	}
	list.usage(e.Usage)
	return list
}

// tags are attributes without empty values.
type tags []attribute.KeyValue

func (l *tags) text(key attribute.Key, value string) {
	if value != "" {
		*l = append(*l, key.String(valid(value)))
	}
}

func (l *tags) texts(key attribute.Key, values []string) {
	if len(values) == 0 {
		return
	}
	clean := make([]string, len(values))
	for i, v := range values {
		clean[i] = valid(v)
	}
	*l = append(*l, key.StringSlice(clean))
}

func (l *tags) number(key attribute.Key, value int64) {
	if value > 0 {
		*l = append(*l, key.Int64(value))
	}
}

func (l *tags) decimal(key attribute.Key, n events.Number) {
	if v, err := strconv.ParseFloat(string(n), 64); err == nil {
		*l = append(*l, key.Float64(v))
	}
}

// model adds the request to a model and its reply.
func (l *tags) model(e *api.TraceEvent) {
	l.text(semconv.GenAIProviderNameKey, e.Provider)
	l.text(semconv.GenAIRequestModelKey, e.Asked)
	l.text(semconv.ServerAddressKey, e.Server)
	l.number(semconv.ServerPortKey, e.Port)
	if q := e.Request; q != nil {
		l.number(semconv.GenAIRequestMaxTokensKey, q.MaxOutputTokens)
		l.decimal(semconv.GenAIRequestTemperatureKey, q.Temperature)
		l.decimal(semconv.GenAIRequestTopPKey, q.TopP)
		if seed, err := strconv.ParseInt(string(q.Seed), 10, 64); err == nil {
			*l = append(*l, semconv.GenAIRequestSeedKey.Int64(seed))
		}
		l.texts(semconv.GenAIRequestStopSequencesKey, q.Stop)
		if q.Stream {
			*l = append(*l, semconv.GenAIRequestStream(true))
		}
		if q.Output {
			*l = append(*l, semconv.GenAIOutputTypeJSON)
		}
	}
	if e.Type == api.TraceModelFailed {
		return
	}
	l.text(semconv.GenAIResponseModelKey, e.Model)
	l.text(semconv.GenAIResponseIDKey, e.Reply)
	if e.FirstMillis != nil {
		*l = append(*l, semconv.GenAIResponseTimeToFirstChunk(float64(*e.FirstMillis)/1000))
	}
	if e.Stop != "" {
		l.texts(semconv.GenAIResponseFinishReasonsKey, []string{finish(e.Stop)})
	}
}

// finish is a stop reason in the terms of the conventions; empty if they have none.
func finish(s events.StopReason) string {
	switch s {
	case events.StopToolUse:
		return "tool_calls"
	case events.StopOutputLimit:
		return "length"
	default:
		return string(s)
	}
}

// usage counts cached tokens as input too, like the conventions.
func (l *tags) usage(u *api.TokenUsage) {
	if u == nil || *u == (api.TokenUsage{}) {
		return
	}
	*l = append(*l, semconv.GenAIUsageInputTokensKey.Int64(inputOf(u)), semconv.GenAIUsageOutputTokensKey.Int64(u.Output))
	l.number(semconv.GenAIUsageCacheReadInputTokensKey, u.CacheRead)
	l.number(semconv.GenAIUsageCacheCreationInputTokensKey, u.CacheWrite)
	l.number(semconv.GenAIUsageReasoningOutputTokensKey, u.Reasoning)
}

// inputOf is all input, with cached tokens.
func inputOf(u *api.TokenUsage) int64 { return u.Input + u.CacheRead + u.CacheWrite }
