package bustest

import (
	"fmt"
	"testing"
	"time"
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

// TestEventually ends with the condition, and fails without it.
func TestEventually(t *testing.T) {
	t.Parallel()
	n := 0
	Eventually(t, "the third look", func() bool { n++; return n == 3 })
	if n != 3 {
		t.Errorf("got %d looks, want 3", n)
	}
	f := &fatal{TB: t}
	func() {
		defer func() { _ = recover() }()
		eventually(f, 20*time.Millisecond, "the sky falls", func() bool { return false })
	}()
	if want := "got no end of the wait in 20ms, want: the sky falls"; f.message != want {
		t.Errorf("got %q, want %q", f.message, want)
	}
}
