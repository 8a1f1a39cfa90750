// Package telemetry makes metrics and traces of what sessions do, for
// Prometheus and OpenTelemetry. It takes the records that a node traces
// ([api.TraceRecord]), which say what happened and never what was said: neither
// a text nor an argument can reach a metric or a span.
//
// Names of spans, attributes and metrics are those of OpenTelemetry's semantic
// conventions for generative AI, version 1.41.0, the last of which its Go module
// has them. A turn is invoke_agent, a model call is chat, a tool call and code
// of a protocol are execute_tool. What the conventions do not name begins with "lash.".
//
// A turn is in one trace, whichever nodes run it: in its client's, which the
// history has, or in one of its own, whose id follows from the session and the
// turn ([tracing.Place]). So no node has to tell another. The span of the turn itself comes from the
// node that ends it; what a killed node did not export is missing, the history
// has it. A sampling ratio decides by the trace's id, so it keeps or drops whole turns.
// A client that does not sample its trace has no spans of its turns.
//
// Nothing here can hold a turn up: spans are dropped when the exporter is slow.
package telemetry
