package bus_test

import (
	"testing"
	"time"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
)

// TestWay has one process ask for the way of another: a younger append waits
// until the older one is done, or, where nothing more is heard, a moment.
func TestWay(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	asks, waits := bustest.Open(t, server), bustest.Open(t, server)
	old, young := time.Now().Add(-time.Second), time.Now()

	wait := func(what string, want bool) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); waits.InWay("s", young) != want; time.Sleep(100 * time.Microsecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: got in the way %v, want %v", what, !want, want)
			}
			if want {
				asks.AskWay("s", old) // as who loses goes on to do
			}
		}
	}
	wait("asked", true)
	if waits.InWay("s", old.Add(-time.Second)) {
		t.Error("an older append: got in the way, want not")
	}
	asks.EndWay("s")
	wait("ended", false)
	wait("asked again", true)
	wait("forgotten", false)

	wait("asked once more", true)
	waits.GiveWay(t.Context(), "s", young)
	wait("given", false)
	asks.AskWay("s", time.Time{})
	wait("a run asks", true)
	if err := asks.Conn().Publish("lash.way.s", []byte("-5 years")); err != nil {
		t.Fatal(err)
	}
	wait("nonsense heard", false)
}
