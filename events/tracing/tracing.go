// Package tracing transports the trace of a client through contexts, headers and histories, and derives the spans of
// turns.
//
// The span ids of a turn are derived from session, turn and effect, so nodes need not exchange them. The trace id is
// that of the client's traceparent, which the history records. Without a client trace it is derived from the turn.
//
// The package imports events and OpenTelemetry. It reads no clock and has no state.
package tracing

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/lash-go/lash/events"
)

// Headers of W3C Trace Context.
const (
	ParentHeader = "traceparent"
	StateHeader  = "tracestate"
)

// SpanKey identifies a span: an effect of a turn, or the turn itself if What is empty.
type SpanKey struct {
	Session events.SessionID
	Turn    events.TurnID
	What    string
	Client  events.TraceParent // the turn's client span; zero means that the turn is its own trace
}

// Span derives the span. It is sampled as the client's span is. Without a client span it is sampled, and the exporter
// decides by the trace id.
func (p SpanKey) Span() trace.SpanContext {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s %s", p.Session, p.Turn, p.What))
	cfg := trace.SpanContextConfig{SpanID: trace.SpanID(sum[:8]), TraceFlags: trace.FlagsSampled, Remote: true}
	if client := Parse(p.Client); client.IsValid() {
		cfg.TraceID, cfg.TraceFlags, cfg.TraceState = client.TraceID(), client.TraceFlags(), client.TraceState()
	} else {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s", p.Session, p.Turn))
		cfg.TraceID = trace.TraceID(sum[:16])
	}
	return trace.NewSpanContext(cfg)
}

// Under makes the span the parent of spans in the context.
func Under(ctx context.Context, p SpanKey) context.Context {
	return trace.ContextWithRemoteSpanContext(ctx, p.Span())
}

// Continue makes a recorded span the parent of spans in the context. A zero value changes nothing.
func Continue(ctx context.Context, t events.TraceParent) context.Context {
	if at := Parse(t); at.IsValid() {
		return trace.ContextWithRemoteSpanContext(ctx, at)
	}
	return ctx
}

// Received makes the span of a request's headers the parent of spans in the context. Malformed headers and a repeated
// traceparent are ignored.
func Received(ctx context.Context, parents, states []string) context.Context {
	if len(parents) != 1 {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{ParentHeader: parents[0], StateHeader: strings.Join(states, ",")})
}

// Of is the current span of the context in the form of histories and headers. Without a span it is zero. A tracestate
// above [events.MaxTraceState] is dropped.
func Of(ctx context.Context) events.TraceParent {
	headers := make(propagation.MapCarrier)
	propagation.TraceContext{}.Inject(ctx, headers)
	t := events.TraceParent{Parent: headers[ParentHeader], State: headers[StateHeader]}
	if len(t.State) > events.MaxTraceState {
		t.State = ""
	}
	return t
}

// Parse converts a recorded span. Without one, the result is invalid.
func Parse(t events.TraceParent) trace.SpanContext {
	if t.IsZero() {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(Received(context.Background(), []string{t.Parent}, []string{t.State})) // the context contains nothing else
}
