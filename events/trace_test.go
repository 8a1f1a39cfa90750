package events_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
)

// TestTraceParentIsChecked changes every byte of a traceparent, and checks length and characters of tracestate.
func TestTraceParentIsChecked(t *testing.T) {
	t.Parallel()
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	refused := func(why string, in events.TraceParent, field string) {
		t.Helper()
		for _, p := range []events.Payload{
			&events.TurnRequested{Input: events.TurnInput{Continue: true}, Trace: in},
			&events.TurnScheduled{Input: events.TurnInput{Continue: true}, At: 1, Trace: in},
			&events.TaskRegistered{Task: "k1", Trace: in},
		} {
			err := p.Validate()
			if f, ok := errors.AsType[*events.FieldError](err); !ok || f.Field != field {
				t.Errorf("%s: %T: got %v, want a refusal of %s", why, p, err, field)
			}
		}
	}
	for i := range good {
		for _, with := range []string{"", "g", "A", "\x00", "0" + good[i:i+1]} {
			refused("byte", events.TraceParent{Parent: good[:i] + with + good[i+1:]}, "trace.parent")
		}
	}
	refused("no trace", events.TraceParent{Parent: "00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01"}, "trace.parent")
	refused("no span", events.TraceParent{Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-" + strings.Repeat("0", 16) + "-01"}, "trace.parent")
	refused("state alone", events.TraceParent{State: "a=b"}, "trace.parent")
	refused("long state", events.TraceParent{Parent: good, State: strings.Repeat("a", events.MaxTraceState+1)}, "trace.state")
	refused("state in two lines", events.TraceParent{Parent: good, State: "a=b\n"}, "trace.state")
	for _, in := range []events.TraceParent{{}, {Parent: good}, {Parent: good, State: strings.Repeat("a", events.MaxTraceState)}} {
		if err := in.Validate(); err != nil {
			t.Errorf("%v: got %v", in, err)
		}
	}
}
