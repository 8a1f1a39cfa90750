// Package telemetry makes metrics and traces of what sessions do, for
// Prometheus and OpenTelemetry. It takes the records that a node traces
// ([api.TraceRecord]), which say what happened and never what was said: neither
// a text nor an argument can reach a metric or a span.
//
// A turn is one trace, whichever nodes run it: the trace's id, and the id of
// each span in it, follow from the session, the turn and the effect alone, so
// that no node has to tell another. The span of the turn itself comes from the
// node that ends it; what a killed node did not export is missing, the history
// has it. A sampling ratio decides by the trace's id, so it keeps or drops whole turns.
//
// Nothing here can hold a turn up: spans are dropped when the exporter is slow.
package telemetry
