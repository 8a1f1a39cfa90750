package bustest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// CheckFilesAreListed compares the files of the package under test with the groups of its documentation.
func CheckFilesAreListed(t testing.TB) {
	t.Helper()
	doc, err := os.ReadFile("doc.go")
	runtest.NoError(t, err)
	all, err := filepath.Glob("*.go")
	runtest.NoError(t, err)
	files := slices.DeleteFunc(all, func(name string) bool { return name == "doc.go" || strings.HasSuffix(name, "_test.go") })
	_, groups, _ := strings.Cut(string(doc), "// Files are grouped by subject:\n")
	groups, _, _ = strings.Cut(groups, "// #")
	listed := regexp.MustCompile(`\w+\.go`).FindAllString(groups, -1)
	slices.Sort(listed)
	slices.Sort(files)
	if !slices.Equal(listed, files) {
		t.Errorf("files in the documentation: got %v, want %v", listed, files)
	}
}
