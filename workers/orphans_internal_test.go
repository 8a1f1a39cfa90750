package workers

import (
	"fmt"
	"testing"

	"github.com/lash-go/lash/bus"
)

// TestHoldersReadOnce looks for the holders of many jobs of one session: it reads the session once.
func TestHoldersReadOnce(t *testing.T) {
	t.Parallel()
	b, r := waiting(t, "t0")
	asked := func(jobs int) uint64 {
		list := make([]bus.JobName, jobs)
		for i := range list {
			list[i] = bus.JobName{Session: r.job.Session, ID: fmt.Sprintf("t%d", i)}
		}
		before := b.Conn().Stats().OutMsgs
		held, err := newOrphans(r.w).holders(t.Context(), list)
		if err != nil || len(held[nobody]) != jobs {
			t.Fatalf("got %d jobs in nobody's hands, %v, want %d", len(held[nobody]), err, jobs)
		}
		return b.Conn().Stats().OutMsgs - before
	}
	if one, many := asked(1), asked(50); one == 0 || many != one {
		t.Errorf("got %d requests for 50 jobs, want the %d for one", many, one)
	}
}
