// Package examples is where to begin: a tool, a hook, a plugin with a state,
// and a protocol, each with a program that runs it.
package examples_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestExamplesAreShort keeps each example, with the program that runs it, below 60 lines.
func TestExamplesAreShort(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := make(map[string]int)
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines[filepath.Dir(name)] += bytes.Count(data, []byte("\n"))
	}
	for _, name := range []string{"hook", "protocol", "state", "tool"} {
		if n := lines[name]; n == 0 || n >= 60 {
			t.Errorf("example %s: got %d lines, want some, and fewer than 60", name, n)
		}
	}
	if len(lines) != 4 {
		t.Errorf("examples: got %v, want the four", lines)
	}
}
