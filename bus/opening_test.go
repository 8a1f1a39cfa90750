package bus_test

import (
	"slices"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/internal/runtest"
)

// TestLateReopen pauses a process between its check that a session is cold and its next stream, through several lives
// of the session: no commit reaches its stream.
func TestLateReopen(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	want := appendUpTo(t, b, "s", nil, 3)
	mustMakeCold(t, b, "s", 3)
	open, err := b.PausedReopen(t.Context(), "s")
	runtest.NoError(t, err)
	want = appendUpTo(t, b, "s", want, 5)
	mustMakeCold(t, b, "s", 5)
	for _, stage := range []string{"cold", "hot", "erased"} {
		runtest.NoError(t, open())
		switch stage {
		case "cold":
			runtest.EqualLists(t, "streams", streams(t, b), nil)
			want = appendUpTo(t, b, "s", want, 6)
		case "hot":
			want = appendUpTo(t, b, "s", want, 7)
			runtest.EqualLists(t, "history", history(t, b, "s", 0), want)
			runtest.NoError(t, erase(t.Context(), b, "s"))
		case "erased":
			isErased(t, b, "s", 7)
		}
	}
}

// TestSweepUnnamedStream: the next stream of a process that died takes no appends, and is removed.
func TestSweepUnnamedStream(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	want := appendUpTo(t, b, "s", nil, 3)
	mustMakeCold(t, b, "s", 3)
	_, err := b.PausedOpening(t.Context(), "s")
	runtest.NoError(t, err)
	want = appendUpTo(t, b, "s", want, 4)
	if got := history(t, b, "s", 0); !slices.Equal(got, want) || len(streams(t, b)) != 2 {
		t.Errorf("history: got %v in %v, want %v and an orphaned stream", got, streams(t, b), want)
	}
	runtest.NoError(t, b.SweepOrphans(t.Context()))
	runtest.Equal(t, "streams", len(streams(t, b)), 1)
	appendUpTo(t, b, "s", want, 6)
}

// TestSweepBeforeName pauses a process that opens a session while its stream is swept. It cannot name the stream any
// more, as that may be deleted at any time.
func TestSweepBeforeName(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	want := appendUpTo(t, b, "s", nil, 3)
	mustMakeCold(t, b, "s", 3)
	name, err := b.PausedOpening(t.Context(), "s")
	runtest.NoError(t, err)
	runtest.NoError(t, b.SweepOrphans(t.Context()))
	runtest.WantError(t, "name what was removed", name(), bus.ErrStale)
	appendUpTo(t, b, "s", want, 6)
}

// TestSweepNamedStream: a named stream that takes no appends yet is bound by the sweep; then the session is hot like
// any other.
func TestSweepNamedStream(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	want := appendUpTo(t, b, "s", nil, 3)
	mustMakeCold(t, b, "s", 3)
	name, err := b.PausedOpening(t.Context(), "s")
	runtest.NoError(t, err)
	runtest.NoError(t, name())
	for _, listed := range []int{0, 1} {
		got := 0
		for hot, err := range b.Hot(t.Context()) {
			if err != nil || hot.ID != "s" {
				t.Fatalf("hot: got %+v, %v", hot, err)
			}
			got++
		}
		runtest.Equal(t, "hot sessions", got, listed)
		runtest.NoError(t, b.SweepOrphans(t.Context()))
	}
	mustMakeCold(t, b, "s", 3)
	appendUpTo(t, b, "s", want, 6)
}
