package session

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"

	"github.com/oklog/ulid/v2"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/tracing"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/convert"
)

// TraceFunc receives one trace record. It must not block. Its failures do not reach a turn.
type TraceFunc func(api.TraceRecord)

// Traces reports whether the host has a trace function.
func (w Worker) Traces() bool { return w.Host.cfg.Trace != nil }

// Trace emits a record of something that happened at a time, 0 for now. It recovers a panic of the trace function.
func (w Worker) Trace(at events.Millis, where api.TraceContext, what api.TraceEvent) {
	if w.Host.cfg.Trace == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			w.Host.logger.Warn("trace panicked", zap.Any("err", p))
		}
	}()
	if at == 0 {
		at = w.Host.b.Millis()
	}
	if len(w.Host.cfg.TraceMetadata) > 0 {
		base := maps.Clone(w.Host.cfg.TraceMetadata)
		maps.Copy(base, where.Metadata)
		where.Metadata = base
	}
	w.Host.cfg.Trace(api.TraceRecord{Schema: api.TraceSchema, ID: ulid.Make().String(), At: at, Context: where, Event: what})
}

// traceContext is the trace context of a service's caller.
func (s *runtimeHost) traceContext() api.TraceContext {
	c := api.TraceContext{Session: s.id}
	if s.working != nil {
		state := s.working.State()
		c = api.TraceContextOf(state)
		if t := state.Turn(); t != nil {
			iteration := t.Iteration
			c.Iteration = &iteration
		}
	}
	c.Effect = s.effect
	return c
}

// traced puts a plugin's request under the span of its call, else under the span of the session's turn.
func (s *runtimeHost) traced(ctx context.Context) context.Context {
	where := s.traceContext()
	if trace.SpanContextFromContext(ctx).IsValid() || where.Turn == "" {
		return ctx
	}
	return tracing.Under(ctx, tracing.SpanKey{Session: where.Session, Turn: where.Turn, Client: where.Client})
}

func (s *runtimeHost) EmitTrace(_ context.Context, place api.TraceContext, event api.TraceEvent) error {
	if s.h.Worker().Traces() {
		event.Type, event.Payload = cmp.Or(event.Type, api.TraceCustom), jsonOf(event.Payload)
		s.h.Worker().Trace(0, place.In(s.traceContext()), event)
	}
	return nil
}

// jsonOf returns a payload as valid JSON; an empty one is nil.
func jsonOf(payload []byte) json.RawMessage {
	if len(payload) == 0 {
		return nil
	}
	return convert.Args(payload)
}
