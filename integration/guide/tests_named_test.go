package guide

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/integration/internal/harness"
)

// TestGuideNamesTests checks that every test which a guide names exists. A name with * is a prefix.
func TestGuideNamesTests(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*)(\\*)?")
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
	harness.WantError(t, "look for tests", err, nil)
	for _, guide := range []string{root + "/README.md", root + "/ARCHITECTURE.md", root + "/CONTRIBUTING.md", root + "/GUIDE.md", root + "/deploy/nats/OPERATING.md"} {
		text, err := os.ReadFile(guide) //nolint:gosec // a file of this module
		harness.WantError(t, "read", err, nil)
		names := named.FindAllSubmatch(text, -1)
		for _, m := range names {
			is := func(name string) bool {
				return name == string(m[1]) || m[2] != nil && strings.HasPrefix(name, string(m[1]))
			}
			if !slices.ContainsFunc(there, is) {
				t.Errorf("%s: names %s, which there is not", guide, m[1])
			}
		}
		if strings.Contains(guide, "OPERATING") && len(names) < 30 {
			t.Errorf("%s: names %d tests, want more", guide, len(names))
		}
	}
}
