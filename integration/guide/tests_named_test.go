package guide

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// testName is the name of a test or benchmark in a sentence. A name with * is a prefix.
var testName = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*)(\\*)?")

// TestUsersReadNoNamesOfTests checks that what users and operators read names no test: its sentences are held by the tests that run them.
func TestUsersReadNoNamesOfTests(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"README.md", "GUIDE.md", "BENCHMARKS.md", "deploy/nats/OPERATING.md", "sdk/typescript/README.md", "examples/typescript/README.md"} {
		for _, m := range testName.FindAllStringSubmatch(readText(t, file), -1) {
			t.Errorf("%s: names %s", file, m[1])
		}
	}
}

// TestContributorsReadNamesOfTests checks that every test which a contributor reads of exists.
func TestContributorsReadNamesOfTests(t *testing.T) {
	t.Parallel()
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*)\(`)
	var there []string
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path) //nolint:gosec // a file of this module
		for _, m := range declared.FindAllSubmatch(source, -1) {
			there = append(there, string(m[1]))
		}
		return err
	})
	runtest.WantError(t, "look for tests", err, nil)
	for _, file := range []string{"ARCHITECTURE.md", "CONTRIBUTING.md"} {
		for _, m := range testName.FindAllStringSubmatch(readText(t, file), -1) {
			is := func(name string) bool { return name == m[1] || m[2] != "" && strings.HasPrefix(name, m[1]) }
			if !slices.ContainsFunc(there, is) {
				t.Errorf("%s: names %s, which there is not", file, m[1])
			}
		}
	}
}
