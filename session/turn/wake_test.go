package turn_test

import (
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/turn"
)

// wakingKinds are the kinds that give a worker new work, or information that the session's worker needs immediately.
var wakingKinds = map[events.Kind]bool{
	"turn.requested": true, "turn.scheduled": true, "turn.cancel_requested": true, "input.injected": true,
	"tool.approval_given": true, "tool.resolved": true, "tool.result_scheduled": true,
}

// TestNeedsWake covers every kind: a new kind is in the table above, or it wakes no worker.
func TestNeedsWake(t *testing.T) {
	t.Parallel()
	found := 0
	for _, kind := range events.Kinds() {
		if got := turn.NeedsWake([]events.Event{{Kind: events.KindTaskProgressed}, {Kind: kind}}); got != wakingKinds[kind] {
			t.Errorf("%s: got %v, want %v", kind, got, wakingKinds[kind])
		}
		if wakingKinds[kind] {
			found++
		}
	}
	if found != len(wakingKinds) || turn.NeedsWake(nil) {
		t.Errorf("got %d kinds of the table, want %d", found, len(wakingKinds))
	}
}
