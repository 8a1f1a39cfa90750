package bus_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// TestLongArchiveOfManyFiles archives a history of several files that fit the session's entry one by one, but not
// together.
func TestLongArchiveOfManyFiles(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	const commits = 130 // about 100 MiB: four files
	random := rand.New(rand.NewPCG(1, 2))
	for seq := range commits {
		c := commit("many", seq+1)
		for range 4 {
			noise := make([]byte, 3<<10)
			for i := range noise {
				noise[i] = byte(' ' + random.IntN(90))
			}
			c.Events = append(c.Events, events.Of("", &events.SessionClosed{Reason: string(noise) + strings.Repeat("x", 200<<10)}))
		}
		_, err := b.Log().Append(t.Context(), c, events.Seq(seq))
		runtest.NoError(t, err)
	}
	runtest.NoError(t, b.Archive(t.Context(), "many", commits))
	runtest.NoError(t, b.Discard(t.Context(), "many"))
	next := events.Seq(1)
	for entry, err := range b.Log().Read(t.Context(), "many", 1) {
		if err != nil || entry.Seq != next || entry.Commit.ID != commit("many", int(next)).ID {
			t.Fatalf("at %d: got %d, %v, want it from the archive", next, entry.Seq, err)
		}
		next++
	}
	if next != commits+1 {
		t.Errorf("read to %d, want %d", next-1, commits)
	}
	_, err := b.Log().Append(t.Context(), commit("many", commits+1), commits)
	runtest.WantError(t, "append to the archived session", err, nil)
	if err := b.Archive(t.Context(), "many", commits+1); err != nil && !errors.As(err, new(*events.ConflictError)) {
		t.Errorf("archive again: %v", err)
	}
}
