package bustest

import "testing"

type testsThat func() int

func (run testsThat) Run() int { return run() }

func TestLeakChecked(t *testing.T) {
	left := make(chan struct{})
	leaving := func() int { go func() { <-left }(); return 0 }
	if code := (LeakChecked{testsThat(leaving)}).Run(); code != 1 {
		t.Errorf("tests that left a goroutine ended with %d", code)
	}
	close(left)
	if code := (LeakChecked{testsThat(func() int { return 3 })}).Run(); code != 3 {
		t.Errorf("failed tests ended with %d, not with their own 3", code)
	}
	if code := (LeakChecked{testsThat(func() int { return 0 })}).Run(); code != 0 {
		t.Errorf("tests that left nothing ended with %d", code)
	}
}
