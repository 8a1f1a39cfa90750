package turn_test

import (
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/turn"
)

// asking are the kinds that a client's command adds to what a session owes, or
// that the worker which has the session must hear of at once.
var asking = map[events.Kind]bool{
	"turn.requested": true, "turn.scheduled": true, "turn.cancel_requested": true, "input.injected": true,
	"tool.approval_given": true, "tool.resolved": true, "tool.result_scheduled": true,
}

// TestAsks goes over every kind: a new one is in the table above, or workers need not hear of it.
func TestAsks(t *testing.T) {
	t.Parallel()
	found := 0
	for _, kind := range events.Kinds() {
		if got := turn.Asks([]events.Event{{Kind: events.KindTaskProgressed}, {Kind: kind}}); got != asking[kind] {
			t.Errorf("%s: got %v, want %v", kind, got, asking[kind])
		}
		if asking[kind] {
			found++
		}
	}
	if found != len(asking) || turn.Asks(nil) {
		t.Errorf("got %d kinds of the table, want %d", found, len(asking))
	}
}
