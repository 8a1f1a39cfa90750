package session

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/oklog/ulid/v2"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/tracing"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/convert"
)

// TraceFunc takes one record of a trace. It must not block, and what goes wrong
// with it is its own affair: no turn waits for it or hears of it.
type TraceFunc func(api.TraceRecord)

// Traces reports whether anybody takes a trace.
func (h *Host) Traces() bool { return h.trace != nil }

// Trace tells of something that happened at a time, 0 for now. A sink that panics is contained.
func (h *Host) Trace(at events.Millis, where api.TraceContext, what api.TraceEvent) {
	if h.trace == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			h.zap.Warn("trace panicked", zap.Any("err", p))
		}
	}()
	if at == 0 {
		at = events.MillisOf(time.Now())
	}
	if len(h.traceMetadata) > 0 {
		base := maps.Clone(h.traceMetadata)
		maps.Copy(base, where.Metadata)
		where.Metadata = base
	}
	h.trace(api.TraceRecord{Schema: api.TraceSchema, ID: ulid.Make().String(), At: at, Context: where, Event: what})
}

// where is the place of a service's caller.
func (s *services) where() api.TraceContext {
	c := api.TraceContext{Session: s.id}
	if s.current != nil {
		state := s.current()
		c = api.TraceContextOf(state)
		if t := state.Turn(); t != nil {
			iteration := t.Iteration
			c.Iteration = &iteration
		}
	}
	c.Effect = s.effect
	return c
}

// traced puts what a plugin asks for under the span of its call, else under its session's turn.
func (s *services) traced(ctx context.Context) context.Context {
	where := s.where()
	if trace.SpanContextFromContext(ctx).IsValid() || where.Turn == "" {
		return ctx
	}
	return tracing.Under(ctx, tracing.SpanKey{Session: where.Session, Turn: where.Turn, Client: where.Client})
}

func (s *services) EmitTrace(_ context.Context, name string, payload json.RawMessage) error {
	if s.Traces() {
		s.Trace(0, s.where(), api.TraceEvent{Type: api.TraceCustom, Name: name, Payload: jsonOf(payload)})
	}
	return nil
}

// jsonOf is a payload as JSON whatever it is.
func jsonOf(payload []byte) json.RawMessage {
	if len(payload) == 0 {
		return nil
	}
	return convert.Args(payload)
}
