package places

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

// upward are ways to name a path that begins with parents, in code, scripts and links.
var upward = regexp.MustCompile(`(?:\.\./)+[A-Za-z0-9_.-]*|Join\((?:"\.\.", )+"[^"]*"`)

// TestPathsStayInside finds relative paths that lead out of the repository, which a clone may not need.
func TestPathsStayInside(t *testing.T) {
	t.Parallel()
	runtest.EqualLists(t, "found", leadOut(t, os.DirFS(root)), nil)
}

// TestPathsThatLeadOut shows which paths are found.
func TestPathsThatLeadOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a/b/c.go": "filepath.Join(\"..\", \"..\", \"..\", \"data\")\nfilepath.Join(\"..\", \"..\", \"data\")\n", "README.md": "[x](../x)\n", "a/d.sh": "cat ../x ../../x\n", "a/e.txtar": "../../../x\n",
	} {
		file := filepath.Join(dir, name)
		runtest.WantError(t, "folder", os.MkdirAll(filepath.Dir(file), 0o700), nil)
		runtest.WantError(t, "file", os.WriteFile(file, []byte(text), 0o600), nil)
	}
	runtest.EqualLists(t, "found", leadOut(t, os.DirFS(dir)), []string{"README.md: ../x", `a/b/c.go: Join("..", "..", "..", "data"`, "a/d.sh: ../../x"})
}

func leadOut(t *testing.T, in fs.FS) (found []string) {
	t.Helper()
	err := fs.WalkDir(in, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if entry != nil && entry.Name() == ".git" || err == nil && entry.Name() == "node_modules" {
				return fs.SkipDir
			}
			return err
		}
		script := filepath.Ext(name) == "" && strings.HasPrefix(name, ".ci/")
		if !script && !slices.Contains([]string{".go", ".md", ".sh", ".yml", ".yaml", ".json", ".mjs", ".ts"}, filepath.Ext(name)) || name == "integration/places/inside_test.go" {
			return nil
		}
		text, err := fs.ReadFile(in, name)
		depth := strings.Count(name, "/")
		for _, way := range upward.FindAll(text, -1) {
			if strings.Count(string(way), "..") > depth && !strings.HasSuffix(string(way), "/etc") { // that is an attack
				found = append(found, name+": "+string(way))
			}
		}
		return err
	})
	runtest.WantError(t, "walk", err, nil)
	slices.Sort(found)
	return found
}
