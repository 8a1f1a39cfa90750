package serve

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lash-go/lash/internal/runtest"
)

// TestReread reads two files after each change. A change is loaded after two equal reads, and a bad file changes
// nothing.
func TestReread(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	r := &rereader{log: zap.New(core)}
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		runtest.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	var loaded []string
	load := func(contents [][]byte) error {
		if strings.HasPrefix(string(contents[0]), "bad") {
			return errors.New("it is bad")
		}
		loaded = append(loaded, string(contents[0])+string(contents[1]))
		return nil
	}
	put("a", "bad")
	put("b", "1")
	if err := r.add("--x", load, filepath.Join(dir, "a"), filepath.Join(dir, "b")); err == nil || err.Error() != "--x: it is bad" {
		t.Errorf("first load: got %v, want the flag and the fault", err)
	}
	put("a", "A")
	runtest.NoError(t, r.add("--x", load, filepath.Join(dir, "a"), filepath.Join(dir, "b")))
	for i, step := range []struct {
		change func()
		loaded string // what the second and third read load; empty: nothing
		errors int
	}{
		{func() {}, "", 0},
		{func() { put("b", "2") }, "A2", 0},
		{func() { put("a", "bad") }, "", 1},
		{func() { put("a", "A") }, "A2", 0},
		{func() { put("a", "B"); put("b", "3") }, "B3", 0},
		{func() { _ = os.Remove(filepath.Join(dir, "b")) }, "", 1},
		{func() { put("b", "4") }, "B4", 0},
	} {
		loaded = nil
		logs.TakeAll()
		step.change()
		r.poll()
		if len(loaded)+logs.Len() > 0 {
			t.Errorf("step %d: got %v after one look, want a second one first", i, loaded)
		}
		r.poll()
		r.poll()
		var want []string
		if step.loaded != "" {
			want = []string{step.loaded}
		}
		if got := logs.FilterLevelExact(zap.ErrorLevel).Len(); !slices.Equal(loaded, want) || got != step.errors {
			t.Errorf("step %d: got %q and %d errors, want %q and %d", i, loaded, got, want, step.errors)
		}
	}
}
