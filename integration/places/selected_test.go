package places

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
)

var (
	selected = regexp.MustCompile(`(?m)^func Test(Long|Child|Smoke)[A-Z]\w*\(`)
	sized    = regexp.MustCompile(`runtest\.(Of|Long)[\[(]`)
	named    = regexp.MustCompile(`(?m)^func Test(Long|Sized)[A-Z]\w*\(`)
	selects  = regexp.MustCompile(`(runtest\.Select|bustest\.VerifyTestMain|bustest\.LeakChecked|harness\.Main(OfSmoke)?|child\.Main)\b`)
)

// TestNamesOfTestsSelect finds packages whose tests are long, or run in processes of their own, and whose TestMain leaves none out.
func TestNamesOfTestsSelect(t *testing.T) {
	t.Parallel()
	packages := 0
	at, err := filepath.Abs(root)
	runtest.WantError(t, "root", err, nil)
	out, err := harness.Go(t.Context(), "list", "-C", root, "-f", "{{.Dir}}", "./...").Output()
	runtest.WantError(t, "packages", err, nil)
	for _, p := range strings.Fields(string(out)) {
		files, err := filepath.Glob(filepath.Join(p, "*_test.go"))
		runtest.WantError(t, "files", err, nil)
		names, main := false, false
		for _, file := range files {
			text, err := os.ReadFile(file) //nolint:gosec // of this module
			runtest.WantError(t, "read", err, nil)
			if sized.Match(text) && !named.Match(text) && !strings.HasPrefix(strings.TrimPrefix(p, at), "/integration/") {
				t.Errorf("%s: a test has two sizes, and no name TestSized…: .ci/run does not run the larger one", file)
			}
			names, main = names || selected.Match(text), main || selects.Match(text)
		}
		if names {
			packages++
		}
		if names && !main {
			t.Errorf("%s: its TestMain calls nothing of internal/runtest", p)
		}
	}
	if packages < 10 {
		t.Errorf("got %d packages with such tests, want more", packages)
	}
}
