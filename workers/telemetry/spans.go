package telemetry

import (
	"cmp"
	"context"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/tracing"
	"github.com/lash-go/lash/session/api"
)

// Spans exports the traces of turns.
type Spans struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// NewSpans exports to exporter, and closes it at Stop. ratio is the exported part of the turns, 0 to 1. A turn whose
// client does not sample its trace is not exported. opts may set a resource; by default the OpenTelemetry variables
// of the environment describe the node.
func NewSpans(exporter sdk.SpanExporter, ratio float64, opts ...sdk.TracerProviderOption) *Spans {
	part := sdk.TraceIDRatioBased(ratio)
	p := sdk.NewTracerProvider(append([]sdk.TracerProviderOption{
		sdk.WithBatcher(exporter), sdk.WithIDGenerator(derived{}), sdk.WithSampler(sdk.ParentBased(part, sdk.WithRemoteParentSampled(part))),
	}, opts...)...)
	return &Spans{provider: p, tracer: p.Tracer("github.com/lash-go/lash", trace.WithSchemaURL(semconv.SchemaURL))}
}

// Stop exports the remaining spans, until ctx ends.
func (s *Spans) Stop(ctx context.Context) error { return s.provider.Shutdown(ctx) }

// Trace makes a span of a record that ends an operation.
func (s *Spans) Trace(r api.TraceRecord) {
	c, e := &r.Context, &r.Event
	if c.Session == "" || c.Turn == "" {
		return
	}
	at := tracing.SpanKey{Session: c.Session, Turn: c.Turn, Client: c.Client}
	under := at
	under.What = string(c.Origin)
	switch e.Type {
	case api.TraceTurnCompleted:
		s.span(&r, made{semconv.GenAIOperationNameInvokeAgent, c.Agent, trace.SpanKindInternal}, at, tracing.Parse(c.Client))
	case api.TraceModelCompleted, api.TraceModelFailed:
		at.What = c.ModelCall + r.ID
		s.span(&r, made{semconv.GenAIOperationNameChat, cmp.Or(e.Asked, e.Model), trace.SpanKindClient}, at, under.Span())
	case api.TraceToolCallCompleted, api.TraceProtocolStep:
		at.What = string(c.Effect)
		s.span(&r, made{semconv.GenAIOperationNameExecuteTool, toolOf(e), trace.SpanKindInternal}, at, under.Span())
	default: // not an end
	}
}

// toolOf is the tool of a call. The code of a protocol is one too.
func toolOf(e *api.TraceEvent) string {
	if e.Type == api.TraceProtocolStep {
		return api.ToolCode
	}
	return e.Tool
}

// span exports one span, which ends at the time of the record.
func (s *Spans) span(r *api.TraceRecord, m made, at tracing.SpanKey, under trace.SpanContext) {
	ctx := context.WithValue(context.Background(), placeKey{}, at) // without values of a caller
	if under.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, under)
	}
	end := time.UnixMilli(int64(r.At))
	_, span := s.tracer.Start(ctx, m.name(), trace.WithSpanKind(m.kind), trace.WithAttributes(attributes(r, m)...),
		trace.WithTimestamp(end.Add(-time.Duration(r.Event.Millis)*time.Millisecond)))
	if why := failure(&r.Event); why != "" {
		span.SetStatus(codes.Error, valid(why))
	}
	span.End(trace.WithTimestamp(end))
}

// failure is the error.type of a record; empty without an error.
func failure(e *api.TraceEvent) string {
	switch e.Type {
	case api.TraceModelFailed:
		return cmp.Or(e.Code, e.Kind, "_OTHER")
	case api.TraceTurnCompleted:
		if e.Status == "failed" || e.Code != "" {
			return cmp.Or(e.Code, e.Kind, string(e.Reason), "_OTHER")
		}
	case api.TraceToolCallCompleted, api.TraceProtocolStep:
		if e.Outcome != events.OutcomeSuccess {
			return cmp.Or(e.Code, e.Class, string(e.Outcome))
		}
	default: // not an end
	}
	return ""
}

type placeKey struct{}

// derived generates the ids of spans from their places.
type derived struct{}

func (derived) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	p, _ := ctx.Value(placeKey{}).(tracing.SpanKey)
	p.Client = events.TraceParent{} // a span without a parent has no client trace
	return p.Span().TraceID(), p.Span().SpanID()
}

func (derived) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	p, _ := ctx.Value(placeKey{}).(tracing.SpanKey)
	return p.Span().SpanID()
}
