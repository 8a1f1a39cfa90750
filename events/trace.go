package events

import (
	"fmt"
	"regexp"
)

// TraceParent is the span of a client under which a request runs, in the form of W3C Trace Context. The zero value is
// none.
type TraceParent struct {
	Parent string `msgpack:"p" json:"traceparent,omitempty"`          // 55 characters of version 00: 00-<trace>-<span>-<flags>
	State  string `msgpack:"s,omitempty" json:"tracestate,omitempty"` // at most [MaxTraceState] bytes of printable ASCII
}

// MaxTraceState limits [TraceParent].State, in bytes.
const MaxTraceState = 512

// IsZero reports whether there is no span.
func (t TraceParent) IsZero() bool { return t == TraceParent{} }

var (
	traceParentForm = regexp.MustCompile(`^00-([0-9a-f]{32})-([0-9a-f]{16})-0[0-3]$`)
	onlyZeros       = regexp.MustCompile(`^0+$`)
	traceStateForm  = regexp.MustCompile(`^[ -~]*$`)
)

// Validate refuses values that violate W3C Trace Context, with a [*FieldError]. The zero value is valid.
func (t TraceParent) Validate() error {
	if t.IsZero() {
		return nil
	}
	ids := traceParentForm.FindStringSubmatch(t.Parent)
	if ids == nil || onlyZeros.MatchString(ids[1]) || onlyZeros.MatchString(ids[2]) {
		return invalid("trace.parent", fmt.Sprintf("has %d bytes, want the 55 characters of a traceparent of version 00 with a trace and a span", len(t.Parent)))
	}
	if len(t.State) > MaxTraceState {
		return tooLarge("trace.state", len(t.State), MaxTraceState)
	}
	if !traceStateForm.MatchString(t.State) {
		return invalid("trace.state", "has other characters than printable ASCII")
	}
	return nil
}
