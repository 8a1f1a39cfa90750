package runtest_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// recorder is a test that records its failures.
type recorder struct{ failures []string }

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatal(args ...any) { r.failures = append(r.failures, "fatal: "+fmt.Sprint(args...)) }

// TestAssertions passes each assertion what it accepts and what it refuses.
func TestAssertions(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	r := &recorder{}
	runtest.NoError(r, nil)
	runtest.WantError(r, "none", nil, nil)
	runtest.WantError(r, "wrapped", fmt.Errorf("at 3: %w", broken), broken)
	runtest.Equal(r, "numbers", 1, 1)
	runtest.DeepEqual(r, "maps", map[string]int{"a": 1}, map[string]int{"a": 1})
	runtest.EqualLists(r, "lists", []int{}, nil)
	runtest.Contains(r, "text", "abc", "b")
	if len(r.failures) > 0 {
		t.Errorf("of what is right: got %q, want none", r.failures)
	}
	runtest.NoError(r, broken)
	runtest.WantError(r, "an error", broken, nil)
	runtest.WantError(r, "no error", nil, broken)
	runtest.Equal(r, "numbers", 1, 2)
	runtest.DeepEqual(r, "maps", map[string]int{"a": 1}, map[string]int{"a": 2})
	runtest.EqualLists(r, "lists", []int{1, 2}, []int{2, 1})
	runtest.Contains(r, "text", "abc", "d")
	want := []string{
		"fatal: broken", "an error: got broken, want <nil>", "no error: got <nil>, want broken", "numbers: got 1, want 2",
		"maps: got map[a:1], want map[a:2]", "lists: got [1 2], want [2 1]", `text: got "abc", want "d" in it`,
	}
	if !slices.Equal(r.failures, want) {
		t.Errorf("of what is wrong: got %q, want %q", r.failures, want)
	}
}
