package follow_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/follow"
)

// TestKilledAnywhere kills a projector before each of its requests. Another projector finishes with the
// same result.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	for k := 1; ; k++ {
		id := events.SessionID(fmt.Sprint("s-", k))
		grow(t, b, id, 0, 40, 3)
		if k%2 == 0 { // there are rows of an older sequence
			mustProject(t, b, id)
			grow(t, b, id, 40, 80, 3)
		}
		if bustest.KilledAt(t, server, k, false, func(ctx context.Context, victim *bus.Bus) error { return project(ctx, victim, id) }) {
			if k < 10 {
				t.Errorf("a projection took %d requests, want more", k-1)
			}
			return
		}
		if k%3 == 0 {
			last := int(refold(t, b, id).Seq)
			grow(t, b, id, last, last+2, 1)
		}
		mustProject(t, b, id)
		rows(t, b, id)
		same(t, b, id)
		if stored, err := follow.Stored(t.Context(), b, id); err != nil || stored == nil {
			t.Errorf("killed at request %d: got snapshot %v, %v, want one", k, stored, err)
		}
	}
}
