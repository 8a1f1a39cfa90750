// Package examples is the starting point for plugin authors: a tool, a hook, a plugin with a state, and a protocol,
// each with a program that runs it. It also has programs: everything in one process, two nodes, a node with additional
// tools, a plugin as a program of its own, and clients of sessions of other clients, in Go and in TypeScript.
package examples_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// TestExamplesAreShort bounds the lines of each example, without its test.
func TestExamplesAreShort(t *testing.T) {
	t.Parallel()
	limits := map[string]int{
		"hook": 40, "protocol": 40, "state": 40, "tool": 40,
		"conformance": 220, "embedded": 100, "owntools": 20, "plugin": 58, "slack": 200, "twonodes": 260, "typescript": 120,
	}
	lines := make(map[string]int)
	for _, pattern := range []string{"*/*.go", "*/client.ts"} {
		files, err := filepath.Glob(pattern)
		runtest.NoError(t, err)
		for _, name := range files {
			data, err := os.ReadFile(name) //nolint:gosec // a file of this module
			runtest.NoError(t, err)
			if !strings.HasSuffix(name, "_test.go") {
				lines[filepath.Dir(name)] += bytes.Count(data, []byte("\n"))
			}
		}
	}
	for name, most := range limits {
		if n := lines[name]; n == 0 || n >= most {
			t.Errorf("example %s: got %d lines, want some, and fewer than %d", name, n, most)
		}
	}
	if len(lines) != len(limits) {
		t.Errorf("examples: got %v, want those that have a limit", lines)
	}
}
