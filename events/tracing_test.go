package events_test

import (
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/tracing"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// TestHeaders: events accept every received span, and malformed headers are ignored.
func TestHeaders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		parents, states []string
		want            events.TraceParent
	}{
		"none":        {},
		"parent":      {[]string{parent}, nil, events.TraceParent{Parent: parent}},
		"both":        {[]string{parent}, []string{"a=b"}, events.TraceParent{Parent: parent, State: "a=b"}},
		"states":      {[]string{parent}, []string{"a=b", "c=d"}, events.TraceParent{Parent: parent, State: "a=b,c=d"}},
		"bad_state":   {[]string{parent}, []string{"a=b\xff"}, events.TraceParent{Parent: parent}},
		"long_state":  {[]string{parent}, []string{"a=" + strings.Repeat("x", 256) + ",b=" + strings.Repeat("x", 256)}, events.TraceParent{Parent: parent}},
		"twice":       {[]string{parent, parent}, nil, events.TraceParent{}},
		"state_alone": {nil, []string{"a=b"}, events.TraceParent{}},
		"later":       {[]string{"01" + parent[2:] + "-more"}, nil, events.TraceParent{Parent: parent}},
		"no_version":  {[]string{"ff" + parent[2:]}, nil, events.TraceParent{}},
		"long":        {[]string{parent + strings.Repeat("0", 1<<20)}, nil, events.TraceParent{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tracing.Of(tracing.Received(t.Context(), c.parents, c.states))
			if got != c.want || got.Validate() != nil {
				t.Errorf("got %v, want %v (%v)", got, c.want, got.Validate())
			}
		})
	}
	for i := range parent {
		for _, with := range []string{"", "g", "A", "\x00"} {
			broken := parent[:i] + with + parent[i+1:]
			if got := tracing.Of(tracing.Received(t.Context(), []string{broken}, nil)); !got.IsZero() {
				t.Errorf("%q: got %v, want nothing", broken, got)
			}
		}
	}
}

// TestSpansOfTurns: each effect of a turn has its own span in the turn's trace, which is the client's trace if it has
// one.
func TestSpansOfTurns(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, client := range []events.TraceParent{{}, {Parent: parent, State: "a=b"}, {Parent: parent[:54] + "0"}} {
		root := tracing.SpanKey{Session: "s", Turn: "t", Client: client}
		call := root
		call.What = "t/0/0"
		for _, p := range []tracing.SpanKey{root, call} {
			span := p.Span()
			if span.TraceID() != root.Span().TraceID() {
				t.Errorf("%v: got trace %s, want the turn's", p, span.TraceID())
			}
			if got := tracing.Of(tracing.Under(t.Context(), p)); got.Validate() != nil || tracing.Parse(got).SpanID() != span.SpanID() || got.State != client.State {
				t.Errorf("%v: got %v, want the span %s", p, got, span.SpanID())
			}
			seen[span.TraceID().String()+span.SpanID().String()] = true
		}
		if at := tracing.Parse(client); at.IsValid() && (root.Span().TraceID() != at.TraceID() || root.Span().IsSampled() != at.IsSampled()) {
			t.Errorf("%v: got %v, want the client's trace and its choice", client, root.Span())
		}
	}
	if len(seen) != 4 { // the client's trace occurs twice
		t.Errorf("got %d spans, want 4", len(seen))
	}
}
