package bus_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// TestSweepKeepsLoss sweeps while a session of which commits are lost waits for its operator, beside a session whose process died while
// it made it hot. The sweep completes the second one alone.
func TestSweepKeepsLoss(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	for _, id := range []events.SessionID{"a", "z"} {
		continued(t, b, id, 5)
	}
	appendUpTo(t, b, "m", nil, 3)
	mustMakeCold(t, b, "m", 3)
	name, err := b.PausedOpening(t.Context(), "m")
	if err == nil {
		err = name()
	}
	runtest.NoError(t, err)
	for n := range 2 {
		for _, id := range []events.SessionID{"a", "z"} {
			if last, err := b.Log().Last(t.Context(), id); !errors.As(err, new(*bus.CutOffError)) {
				t.Errorf("%s, after %d sweeps: got %d, %v, want the loss", id, n, last, err)
			}
		}
		runtest.NoError(t, b.SweepOrphans(t.Context()))
	}
	if seq, err := b.Log().Append(t.Context(), commit("a", 4), 3); !errors.As(err, new(*bus.CutOffError)) {
		t.Errorf("append after a sweep: got %d, %v, want the loss", seq, err)
	}
	if opening, err := b.IsOpening(t.Context(), "m"); err != nil || opening {
		t.Errorf("a session without a loss: got opening %t, %v, want a stream that takes appends", opening, err)
	}
}

// TestLocatedBeforeAppends locates the stream of a session that becomes hot, and reads its row after another process has appended to it:
// nothing is lost.
func TestLocatedBeforeAppends(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	for _, more := range []events.Seq{1, 2, 5} {
		id := events.SessionID(fmt.Sprint("s", more))
		want := appendUpTo(t, b, id, nil, 3)
		mustMakeCold(t, b, id, 3)
		open, err := b.PausedReopen(t.Context(), id)
		if err == nil {
			err = open()
		}
		runtest.NoError(t, err)
		check, err := b.PausedLocate(t.Context(), id)
		runtest.NoError(t, err)
		appendUpTo(t, b, id, want, int(3+more))
		_, err = b.Directory().Put(t.Context(), id, fmt.Appendf(nil, `{"session":%q,"seq":%d}`, id, 3+more), 0)
		runtest.NoError(t, err)
		if last, err := check(); err != nil || last != 3+more {
			t.Errorf("%d more: got %d, %v, want %d", more, last, err, 3+more)
		}
	}
}
