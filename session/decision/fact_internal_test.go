package decision

import (
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
	"github.com/lash-go/lash/session/turn"
)

// TestKindsOfEither compares the table of kinds with isAlwaysInput: the content decides of exactly the kinds that the table
// marks "either".
func TestKindsOfEither(t *testing.T) {
	t.Parallel()
	either := map[events.Kind]struct{ input, other events.Payload }{
		events.KindToolCalled:        {&events.ToolCalled{Calls: []int64{0}, Attempt: 2}, &events.ToolCalled{Calls: []int64{0}}},
		events.KindHookRan:           {&events.HookRan{Point: events.PointAfterTool}, &events.HookRan{Point: events.PointBeforeTurn}},
		events.KindTurnDiverted:      {&events.TurnDiverted{End: events.EndBranched}, &events.TurnDiverted{}},
		events.KindToolApprovalAsked: {&events.ToolApprovalAsked{Effect: "t1/0/0/nested"}, &events.ToolApprovalAsked{Effect: turn.ToolEffect("t1", 0, 0)}},
	}
	for _, kind := range events.Kinds() {
		pair, listed := either[kind]
		if listed != events.IsEither(kind) {
			t.Errorf("%s: got %t in the table of kinds, want %t", kind, events.IsEither(kind), listed)
		}
		if listed {
			for p, want := range map[events.Payload]bool{pair.input: true, pair.other: false} {
				if ev := events.Of("t1", p); isAlwaysInput(&ev) != want {
					t.Errorf("%s %+v: got input %t, want %t", kind, p, !want, want)
				}
			}
			continue
		}
		for seed := range 50 {
			ev := events.Of("t1", eventstest.Payload(kind).Example(seed))
			if got := isAlwaysInput(&ev); got == events.IsDecided(kind) {
				t.Errorf("%s %+v: got input %t and decided %t", kind, ev.Payload, got, events.IsDecided(kind))
			}
		}
	}
}
