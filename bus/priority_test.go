package bus_test

import (
	"testing"
	"time"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/internal/runtest"
)

// TestPriority: an append on one bus requests priority from a younger one on another bus. The younger one yields
// until the older is done, or, without further requests, for a moment.
func TestPriority(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	requester, younger := bustest.Open(t, server), bustest.Open(t, server)
	old, young := time.Now().Add(-time.Second), time.Now()

	wait := func(what string, want bool) {
		t.Helper()
		bustest.Eventually(t, what, func() bool {
			if younger.MustYield("s", young) == want {
				return true
			}
			if want {
				requester.RequestPriority("s", old) // as an append does after each conflict
			}
			return false
		})
	}
	wait("requested", true)
	if younger.MustYield("s", old.Add(-time.Second)) {
		t.Error("an older append: must yield, want not")
	}
	requester.ReleasePriority("s")
	wait("ended", false)
	wait("requested again", true)
	wait("expired", false)

	wait("requested once more", true)
	younger.Yield(t.Context(), "s", young)
	wait("yielded", false)
	requester.RequestPriority("s", time.Time{})
	wait("a run requests", true)
	runtest.NoError(t, requester.Conn().Publish("lash.way.s", []byte("-5 years")))
	wait("malformed age", false)
}
