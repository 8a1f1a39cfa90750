package bustest

import (
	"testing"
	"time"
)

// awaitLimit bounds the wait for what happens after milliseconds on an idle machine, and much later on one without time for the test.
const awaitLimit = 5 * time.Minute

// Eventually waits until ok returns true, and fails the test after 5 minutes. what describes the condition. A test has no other
// wait that polls.
func Eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	eventually(tb, awaitLimit, what, ok)
}

func eventually(tb testing.TB, limit time.Duration, what string, ok func() bool) {
	tb.Helper()
	for began := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) { //nolint:forbidigo // the one wait that polls
		if time.Since(began) > limit {
			tb.Fatalf("got no end of the wait in %v, want: %s", limit, what)
		}
	}
}

// Receive waits for a value or the close of a channel, and fails the test after 5 minutes. what describes the event.
func Receive[T any](tb testing.TB, what string, from <-chan T) T {
	tb.Helper()
	return receive(tb, awaitLimit, what, from)
}

func receive[T any](tb testing.TB, limit time.Duration, what string, from <-chan T) (got T) {
	tb.Helper()
	select {
	case got = <-from:
	case <-time.After(limit): //nolint:forbidigo // the one limit of waits
		tb.Fatalf("got nothing in %v, want: %s", limit, what)
	}
	return got
}
