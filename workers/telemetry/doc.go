// Package telemetry makes metrics and traces of sessions, for Prometheus and OpenTelemetry. Its input is the trace
// records of a node ([api.TraceRecord]), which have no texts and no arguments: neither can reach a metric or a span.
//
// Names of spans, attributes and metrics are those of OpenTelemetry's semantic conventions for generative AI, version
// 1.41.0, the last version with them in its Go module. A turn is invoke_agent, a model call is chat, a tool call and the
// code of a protocol are execute_tool. Names that the conventions lack begin with "lash.".
//
// A turn is in one trace, on whichever nodes it runs. The trace is that of its client, which the history has, or its
// own, whose id follows from the session and the turn ([tracing.SpanKey]). The nodes need no communication for it. The
// node that ends a turn exports the turn's span. Spans that a killed node did not export are missing; the history has
// their events. A sampling ratio decides by the trace's id, so it keeps or drops whole turns. If a client does not
// sample its trace, its turns have no spans.
//
// A slow exporter delays no turn: spans are dropped.
package telemetry
