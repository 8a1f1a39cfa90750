package bustest

import (
	"fmt"
	"testing"
	"time"

	"github.com/lash-go/lash/internal/runtest"
)

// fatal is a test that records its failure.
type fatal struct {
	testing.TB
	message string
}

func (f *fatal) Helper() {}

func (f *fatal) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	panic(f)
}

// failure is the message with which a test fails.
func failure(t *testing.T, fails func(testing.TB)) (message string) {
	t.Helper()
	f := &fatal{TB: t}
	defer func() { _, message = recover(), f.message }()
	fails(f)
	return "none"
}

// TestEventually ends with the condition, and fails without it.
func TestEventually(t *testing.T) {
	t.Parallel()
	n := 0
	Eventually(t, "the third look", func() bool { n++; return n == 3 })
	if n != 3 {
		t.Errorf("got %d looks, want 3", n)
	}
	got := failure(t, func(tb testing.TB) {
		eventually(tb, 20*time.Millisecond, "the sky falls", func() bool { return false })
	})
	if want := "got no end of the wait in 20ms, want: the sky falls"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestReceive returns the value or the close of a channel, and fails without one.
func TestReceive(t *testing.T) {
	t.Parallel()
	c := make(chan int, 1)
	c <- 3
	runtest.Equal(t, "received", Receive(t, "three", c), 3)
	got := failure(t, func(tb testing.TB) { receive(tb, 20*time.Millisecond, "a rose", c) })
	if want := "got nothing in 20ms, want: a rose"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	close(c)
	runtest.Equal(t, "closed", Receive(t, "the close", c), 0)
}
