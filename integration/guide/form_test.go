package guide

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// TestReadmeForm checks the form of the README: its first screen answers in an order what lash is for, the chapters have an order, and the
// last one says where new behaviour goes. No table has a cell of several lines.
func TestReadmeForm(t *testing.T) {
	t.Parallel()
	text := readText(t, "README.md")
	first, _, _ := strings.Cut(text, "\n## ")
	rest := first
	for _, next := range []string{
		"# lash\n", "can die", "lash is a runtime", "**session**", "**history**", "**node**", "**client**", "```diagram\n", "\n4. ", "```sh\n", "\nStatus: ",
	} {
		_, after, found := strings.Cut(rest, next)
		if !found {
			t.Fatalf("before the first chapter: there is no %q, or not in this place", next)
		}
		rest = after
	}
	if words := len(strings.Fields(first)); words > 500 {
		t.Errorf("before the first chapter: got %d words, want at most 500", words)
	}
	want := []string{
		"# lash", "## First steps", "### 1. In a terminal", "### 2. In Go", "### 3. Over HTTP",
		"## The life of a session", "## What it guarantees", "## What it does not do",
		"### Races", "### Limits", "### Security", "## Map",
	}
	runtest.EqualLists(t, "headings", headings(text), want)
	_, life, _ := strings.Cut(text, "## The life of a session")
	life, _, _ = strings.Cut(life, "\n## ")
	if !strings.Contains(life, "```mermaid\n") {
		t.Error("the life of a session has no picture")
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, "[CONTRIBUTING.md](CONTRIBUTING.md)") {
		t.Errorf("the README ends in %q, want the link to where new behaviour goes", last)
	}
	for _, file := range []string{"README.md", "CONTRIBUTING.md"} {
		if strings.Contains(readText(t, file), "<br>") {
			t.Errorf("%s: a cell of a table has several lines", file)
		}
	}
}

// TestLinks checks that the links of the guides lead to files and chapters that exist.
func TestLinks(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]+))?\)`)
	for _, file := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "GUIDE.md", "deploy/nats/OPERATING.md", "examples/typescript/README.md"} {
		links := link.FindAllStringSubmatch(readText(t, file), -1)
		for _, m := range links {
			to := file
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(file), m[1])
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s: links to %s: %v", file, to, err)
			} else if m[2] != "" && !slices.ContainsFunc(headings(readText(t, to)), func(h string) bool { return anchor(h) == m[2] }) {
				t.Errorf("%s: links to %s of %s, which has no such chapter", file, m[2], to)
			}
		}
		if len(links) == 0 && !strings.Contains(file, "/") {
			t.Errorf("%s: has no links", file)
		}
	}
}

func readText(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, file)) //nolint:gosec // a file of this repository
	runtest.NoError(t, err)
	return string(data)
}

// headings are the headings of a text, outside of its blocks.
func headings(text string) (list []string) {
	inside := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = !inside
		case !inside && strings.HasPrefix(line, "#"):
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}

// anchor is the name that a heading has in links.
func anchor(heading string) string {
	text := strings.ToLower(strings.TrimLeft(heading, "# "))
	return strings.ReplaceAll(regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(text, ""), " ", "-")
}
