package bustest

import (
	"testing"
	"time"
)

// awaitLimit bounds the wait for a condition that holds after milliseconds on an idle machine.
const awaitLimit = 30 * time.Second

// Eventually waits until ok returns true, and fails the test after 30 s. what describes the condition.
func Eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	eventually(tb, awaitLimit, what, ok)
}

func eventually(tb testing.TB, limit time.Duration, what string, ok func() bool) {
	tb.Helper()
	for began := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > limit {
			tb.Fatalf("got no end of the wait in %v, want: %s", limit, what)
		}
	}
}
