package projector_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// TestQueueCost folds sessions with waiting turns that end one after the other. Four times as many turns allocate
// about four times as much. It does not run in parallel, because it counts the allocations of the process.
func TestQueueCost(t *testing.T) { //nolint:paralleltest // see above
	if projector.Invariants {
		t.Skip("this build looks at the whole state after every commit")
	}
	allocated := func(turns int) uint64 {
		h := begin(t)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range turns {
			h.add(events.TurnID(fmt.Sprintf("t%d", i)), &events.TurnRequested{})
		}
		for i := range turns {
			id := events.TurnID(fmt.Sprintf("t%d", i))
			h.add(id, &events.TurnStarted{Attempt: 1, Worker: "w"}).add(id, &events.TurnCompleted{End: events.EndCancelled})
		}
		runtime.ReadMemStats(&after)
		if len(h.Queue) > 0 || h.Turn() != nil {
			t.Fatalf("got %d turns that wait, %v that runs, want none", len(h.Queue), h.Turn())
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	few, many := allocated(1000), allocated(4000)
	if many > 8*few {
		t.Errorf("got %d bytes for 4 000 turns, want at most 8 times the %d for 1 000", many, few)
	}
}
