package telemetry

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// Spans exports the trace of turns.
type Spans struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// NewSpans exports to exporter, which it owns from then on. ratio is the part
// of turns that are exported, 0 to 1. resource describes the node, as the
// OpenTelemetry environment variables of the process say when it is nil.
func NewSpans(exporter sdk.SpanExporter, ratio float64, opts ...sdk.TracerProviderOption) *Spans {
	p := sdk.NewTracerProvider(append([]sdk.TracerProviderOption{
		sdk.WithBatcher(exporter), sdk.WithIDGenerator(derived{}), sdk.WithSampler(sdk.TraceIDRatioBased(ratio)),
	}, opts...)...)
	return &Spans{provider: p, tracer: p.Tracer("github.com/lash-go/lash")}
}

// Stop exports what waits, until ctx ends.
func (s *Spans) Stop(ctx context.Context) error { return s.provider.Shutdown(ctx) }

// Trace makes a span of a record that ends something.
func (s *Spans) Trace(r api.TraceRecord) {
	c, e := &r.Context, &r.Event
	if c.Session == "" || c.Turn == "" {
		return
	}
	switch e.Type {
	case api.TraceTurnCompleted:
		s.span(&r, "turn", place{c.Session, c.Turn, ""}, nil)
	case api.TraceModelCompleted, api.TraceModelFailed:
		s.span(&r, "chat "+e.Model, place{c.Session, c.Turn, c.ModelCall + r.ID}, parent(c))
	case api.TraceToolCallCompleted:
		s.span(&r, "execute_tool "+e.Tool, place{c.Session, c.Turn, string(c.Effect)}, parent(c))
	case api.TraceProtocolStep:
		s.span(&r, "execute_code", place{c.Session, c.Turn, string(c.Effect)}, parent(c))
	default: // ends nothing
	}
}

// parent is the span that a call belongs under: the code that made it, or the turn.
func parent(c *api.TraceContext) *place {
	if c.Origin != "" {
		return &place{c.Session, c.Turn, string(c.Origin)}
	}
	return &place{c.Session, c.Turn, ""}
}

// span exports one span, which ended when the record was made. The root has no parent.
func (s *Spans) span(r *api.TraceRecord, name string, at place, under *place) {
	ctx := context.WithValue(context.Background(), placeKey{}, at) // nothing of a caller's belongs in it
	kind := trace.SpanKindInternal
	if under != nil {
		ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: under.trace(), SpanID: under.span(), TraceFlags: trace.FlagsSampled, Remote: true,
		}))
		kind = trace.SpanKindClient
	}
	end := time.UnixMilli(int64(r.At))
	_, span := s.tracer.Start(ctx, valid(name), trace.WithSpanKind(kind), trace.WithAttributes(attributes(r)...),
		trace.WithTimestamp(end.Add(-time.Duration(r.Event.Millis)*time.Millisecond)))
	if failed, why := failure(&r.Event); failed {
		span.SetStatus(codes.Error, valid(why))
	}
	span.End(trace.WithTimestamp(end))
}

// failure reports whether a record tells of something that went wrong, and its code.
func failure(e *api.TraceEvent) (bool, string) {
	switch e.Type {
	case api.TraceModelFailed:
		return true, e.Kind
	case api.TraceTurnCompleted:
		return e.Status == "failed", e.Code
	case api.TraceToolCallCompleted, api.TraceProtocolStep:
		return e.Outcome != events.OutcomeSuccess, string(e.Outcome)
	default:
		return false, ""
	}
}

// attributes are what is told of a span, where OpenTelemetry has a name for it under that.
func attributes(r *api.TraceRecord) []attribute.KeyValue {
	c, e := &r.Context, &r.Event
	list := []attribute.KeyValue{attribute.String("gen_ai.conversation.id", valid(string(c.Session))), attribute.String("lash.turn", valid(string(c.Turn)))}
	text := func(key, value string) {
		if value != "" {
			list = append(list, attribute.String(key, valid(value)))
		}
	}
	text("lash.worker", c.Metadata["worker"])
	text("lash.effect", string(c.Effect))
	text("gen_ai.provider.name", e.Provider)
	text("gen_ai.request.model", e.Model)
	text("gen_ai.tool.name", e.Tool)
	text("gen_ai.tool.call.id", string(e.CallID))
	text("lash.end", string(e.Reason))
	text("lash.stop", string(e.Stop))
	text("error.type", e.Code)
	if e.Attempts > 0 {
		list = append(list, attribute.Int64("lash.attempts", e.Attempts))
	}
	if c.Iteration != nil {
		list = append(list, attribute.Int64("lash.iteration", *c.Iteration))
	}
	return list
}

// place is what a span is of. What is empty is the turn itself.
type place struct {
	session events.SessionID
	turn    events.TurnID
	what    string
}

type placeKey struct{}

func (p place) trace() (id trace.TraceID) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s", p.session, p.turn))
	copy(id[:], sum[:])
	return id
}

func (p place) span() (id trace.SpanID) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s %s", p.session, p.turn, p.what))
	copy(id[:], sum[:])
	return id
}

// derived gives spans the ids of their places.
type derived struct{}

func (derived) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	p, _ := ctx.Value(placeKey{}).(place)
	return p.trace(), p.span()
}

func (derived) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	p, _ := ctx.Value(placeKey{}).(place)
	return p.span()
}
