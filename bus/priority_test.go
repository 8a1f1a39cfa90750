package bus_test

import (
	"testing"
	"time"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
)

// TestPriority: an append on one bus requests priority from a younger one on another bus. The younger one yields
// until the older is done, or, without further requests, for a moment.
func TestPriority(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	asks, waits := bustest.Open(t, server), bustest.Open(t, server)
	old, young := time.Now().Add(-time.Second), time.Now()

	wait := func(what string, want bool) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); waits.MustYield("s", young) != want; time.Sleep(100 * time.Microsecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: got in the way %v, want %v", what, !want, want)
			}
			if want {
				asks.RequestPriority("s", old) // as an append does after each conflict
			}
		}
	}
	wait("asked", true)
	if waits.MustYield("s", old.Add(-time.Second)) {
		t.Error("an older append: got in the way, want not")
	}
	asks.ReleasePriority("s")
	wait("ended", false)
	wait("asked again", true)
	wait("forgotten", false)

	wait("asked once more", true)
	waits.Yield(t.Context(), "s", young)
	wait("given", false)
	asks.RequestPriority("s", time.Time{})
	wait("a run asks", true)
	if err := asks.Conn().Publish("lash.way.s", []byte("-5 years")); err != nil {
		t.Fatal(err)
	}
	wait("nonsense heard", false)
}
