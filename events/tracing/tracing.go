// Package tracing carries the trace of a client through contexts, headers and
// histories, and names the spans of turns.
//
// The ids of a turn's spans follow from the session, the turn and the effect
// alone, so no node has to tell them to another. The trace's id is that of the
// client's traceparent, which the history has, or follows from the turn as well.
//
// The package imports events only, beside OpenTelemetry. It reads no clock and keeps no state.
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

// The headers of W3C Trace Context.
const (
	ParentHeader = "traceparent"
	StateHeader  = "tracestate"
)

// Place is what a span is of: an effect of a turn, or the turn itself where What is empty.
type Place struct {
	Session events.SessionID
	Turn    events.TurnID
	What    string
	Client  events.TraceParent // of the turn; zero: the turn is a trace of its own
}

// Root is the place of the turn itself.
func (p Place) Root() Place {
	p.What = ""
	return p
}

// Span is the span of the place. It is sampled as the client's is, and where
// there is none: what exports spans decides by the trace's id.
func (p Place) Span() trace.SpanContext {
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

// Under puts what is done with the context under the span of a place.
func Under(ctx context.Context, p Place) context.Context {
	return trace.ContextWithRemoteSpanContext(ctx, p.Span())
}

// Continue puts what is done with the context under a span of the history. Zero changes nothing.
func Continue(ctx context.Context, t events.TraceParent) context.Context {
	if at := Parse(t); at.IsValid() {
		return trace.ContextWithRemoteSpanContext(ctx, at)
	}
	return ctx
}

// Received is ctx under the span that a request's headers name. Headers that
// are malformed, and a traceparent that stands twice, are as if they were not there.
func Received(ctx context.Context, parents, states []string) context.Context {
	if len(parents) != 1 {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{ParentHeader: parents[0], StateHeader: strings.Join(states, ",")})
}

// Of is the span that the context is under, as histories and headers have it;
// zero where there is none. A tracestate above [events.MaxTraceState] is left out.
func Of(ctx context.Context) events.TraceParent {
	headers := make(propagation.MapCarrier)
	propagation.TraceContext{}.Inject(ctx, headers)
	t := events.TraceParent{Parent: headers[ParentHeader], State: headers[StateHeader]}
	if len(t.State) > events.MaxTraceState {
		t.State = ""
	}
	return t
}

// Parse is the span that a history names; an invalid one where it names none.
func Parse(t events.TraceParent) trace.SpanContext {
	if t.IsZero() {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(Received(context.Background(), []string{t.Parent}, []string{t.State})) // holds nothing else
}
