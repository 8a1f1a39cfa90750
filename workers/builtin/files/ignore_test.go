package files

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/internal/runtest"
)

// tree writes files, by path, and returns their directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		full := filepath.Join(dir, name)
		runtest.NoError(t, os.MkdirAll(filepath.Dir(full), 0o700))
		runtest.NoError(t, os.WriteFile(full, []byte(text), 0o600))
	}
	return dir
}

// TestSearchFilesPattern searches only the files that the pattern selects.
func TestSearchFilesPattern(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"a.go": "one", "b.ts": "one", "sub/c.go": "one", "sub/deep/d.tsx": "one"})
	for _, tc := range []struct{ files, path, want string }{
		{"", "", "a.go b.ts sub/c.go sub/deep/d.tsx"},
		{"*.go", "", "a.go sub/c.go"},
		{"*.go", "sub", "sub/c.go"},
		{"sub/*.go", "", "sub/c.go"},
		{"sub/**", "", "sub/c.go sub/deep/d.tsx"},
		{"**/*.{ts,tsx}", "", "b.ts sub/deep/d.tsx"},
		{"*.go", "b.ts", ""},
		{"*.go", "a.go", "a.go"},
	} {
		got := searchIn(t.Context(), t, Config{Root: dir}, searchRequest{Pattern: "one", Path: tc.path, Files: tc.files})
		if names := foundIn(got); names != tc.want {
			t.Errorf("files %q in %q: got %q (%q), want %q", tc.files, tc.path, names, got, tc.want)
		}
	}
}

// foundIn are the files of a result, in its order.
func foundIn(result string) string {
	var names []string
	for line := range strings.Lines(result) {
		if name, _, ok := strings.Cut(line, ":1: "); ok {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// TestFilesPatternsAreBounded rejects what is invalid, long, or stands for many patterns.
func TestFilesPatternsAreBounded(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		"[a":                                 "is not a valid pattern",
		"{a":                                 "is not a valid pattern",
		strings.Repeat("a", maxGlob+1):       "has 257 bytes, the limit is 256",
		strings.Repeat("{a,aa}", 40) + "b":   "combinations of alternatives, the limit is 64",
		strings.Repeat("{a,{b,{c,d}}}", 3):   "combinations of alternatives, the limit is 64",
		"{" + strings.Repeat("a,", 70) + "}": "has 71 or more combinations",
		strings.Repeat("{a,b}", 6):           "",
		strings.Repeat(`\{a,b\}`, 30):        "",
		strings.Repeat("**/*a", 51):          "",
	} {
		g, err := compileGlob(pattern)
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && !strings.Contains(got, want) {
			t.Errorf("%.40s: got %v, want %q", pattern, err, want)
		}
		if err == nil && g.selects(strings.Repeat("aaaaaaaaaaaaaaa/", 255)+"b") && !strings.HasSuffix(pattern, "b") {
			t.Errorf("%.40s: selects a file that does not match", pattern)
		}
	}
}

// TestAlternativesAreCounted repeats groups of alternatives that have a character class or an escaped character at each
// place. Their combinations are above the limit, whatever the class contains.
func TestAlternativesAreCounted(t *testing.T) {
	t.Parallel()
	for _, c := range []string{"{", "}", ",", "{,", "},", `\]`, `\[`, `\]}`, "^}", "!{", "a-}", "[}", `\\`} {
		for _, literal := range []string{"[" + c + "]", "x[" + c + "]y", `\` + c[:1]} {
			for _, group := range []string{"{" + literal + ",*,*}", "{*," + literal + ",*}", "{*,*," + literal + "}", "{*,{" + literal + ",*}}", literal + "{*,*,*}"} {
				if _, err := compileGlob(strings.Repeat(group, 7)); err == nil || !strings.Contains(err.Error(), "combinations of alternatives") {
					t.Errorf("%s, 7 times: got %v, want it refused for its combinations", group, err)
				}
			}
			_, err := compileGlob(strings.Repeat(literal, 20))
			runtest.WantError(t, fmt.Sprintf("%s, 20 times", literal), err, nil)
		}
	}
}

// TestSearchLeavesOutIgnored applies .gitignore files per directory, and counts what they leave out.
func TestSearchLeavesOutIgnored(t *testing.T) {
	t.Parallel()
	const rules = "# comment\n\n*.log\n!keep.log\n/build\nout/\ndocs/*.tmp\nall/**\n!all/x\n\\!odd\nwith\\ \nbr{a,b}ce\n[bad\ntrailing  \r\n"
	tests := map[string]struct {
		files       map[string]string // by path; "" stands for the searched word
		path        string
		want        string
		leftFiles   int
		leftDirs    int
		denyIgnores bool
	}{
		"names":            {files: map[string]string{".gitignore": rules, "a.log": "", "s/b.log": "", "keep.log": "", "s/keep.log": ""}, want: "keep.log s/keep.log", leftFiles: 2},
		"anchored":         {files: map[string]string{".gitignore": rules, "build": "", "s/build": ""}, want: "s/build", leftFiles: 1},
		"directories":      {files: map[string]string{".gitignore": rules, "out/a": "", "out/b": "", "s/out/c": "", "x/out": ""}, want: "x/out", leftDirs: 2},
		"paths":            {files: map[string]string{".gitignore": rules, "docs/a.tmp": "", "docs/s/b.tmp": "", "s/docs/c.tmp": ""}, want: "docs/s/b.tmp s/docs/c.tmp", leftFiles: 1},
		"below":            {files: map[string]string{".gitignore": rules, "all/x": "", "all/y": ""}, want: "all/x", leftFiles: 1},
		"escapes":          {files: map[string]string{".gitignore": rules, "!odd": "", "with ": "", "br{a,b}ce": "", "brace": "", "trailing": ""}, want: "brace", leftFiles: 4},
		"deeper decides":   {files: map[string]string{".gitignore": "*.log\n", "s/.gitignore": "!b.log\n/own\n", "s/b.log": "", "b.log": "", "s/own": "", "own": ""}, want: "own s/b.log", leftFiles: 2},
		"excluded parent":  {files: map[string]string{".gitignore": "out/\n", "out/.gitignore": "!*\n", "out/a": ""}, want: "", leftDirs: 1},
		"above the path":   {files: map[string]string{".gitignore": "*.log\n", "s/.gitignore": "d/no\n", "s/d/a.log": "", "s/d/no": "", "s/d/yes": ""}, path: "s/d", want: "s/d/yes", leftFiles: 2},
		"the path itself":  {files: map[string]string{".gitignore": "*.log\n", "a.log": ""}, path: "a.log", want: "a.log"},
		"denied is unread": {files: map[string]string{".gitignore": "*.log\n", "a.log": ""}, want: "a.log", denyIgnores: true},
		"too large":        {files: map[string]string{".gitignore": "*.log\n" + strings.Repeat("#", maxIgnoreBytes), "a.log": ""}, want: "a.log"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for file, text := range tc.files {
				if text == "" {
					tc.files[file] = "one"
				}
			}
			cfg := Config{Root: tree(t, tc.files)}
			if tc.denyIgnores {
				cfg.Rules.Deny = []string{"read_file:*.gitignore"}
			}
			got := searchIn(t.Context(), t, cfg, searchRequest{Pattern: "^one", Path: tc.path})
			if names := foundIn(got); names != tc.want {
				t.Errorf("got %q (%q), want %q", names, got, tc.want)
			}
			note := fmt.Sprintf("[%d files and %d directories are left out by .gitignore]\n", tc.leftFiles, tc.leftDirs)
			if has := strings.Contains(got, note); has != (tc.leftFiles+tc.leftDirs > 0) {
				t.Errorf("got %q, want %q in it", got, note)
			}
		})
	}
}

// TestIgnoreRulesAreBounded stops at the time limit while many costly rules are matched.
func TestIgnoreRulesAreBounded(t *testing.T) {
	t.Parallel()
	rules := strings.Repeat(strings.Repeat("*a*b", 10)+"*c\n", maxIgnoreRules)
	files, deep := map[string]string{}, ""
	for range 40 {
		files[deep+".gitignore"] = rules
		deep += strings.Repeat("ab", 30) + "/"
	}
	for i := range 200 {
		files[fmt.Sprintf("%s%s%d", deep, strings.Repeat("ab", 50), i)] = "one"
	}
	got := searchIn(t.Context(), t, Config{Root: tree(t, files), SearchTime: 50 * time.Millisecond}, searchRequest{Pattern: "one"})
	runtest.Contains(t, "got", got, "the time limit is 50ms")
}

// TestLongNestedIgnoresAreBounded searches below many .gitignore files whose rules are costly. The work stays below its limit,
// the search reads every file, and a cheap rule still applies before the limit.
func TestLongNestedIgnoresAreBounded(t *testing.T) {
	t.Parallel()
	rules := strings.Repeat(strings.Repeat("*a*b", 10)+"*c\n", maxIgnoreRules)
	files, deep := map[string]string{".gitignore": "left-out\n", "left-out": "one"}, ""
	const levels, wide = 20, 60
	for range levels {
		deep += strings.Repeat("ab", 30) + "/"
		files[deep+".gitignore"] = rules
	}
	for i := range wide {
		files[fmt.Sprintf("%s%s%d", deep, strings.Repeat("ab", 50), i)] = "one"
	}
	s := searcherIn(t, Config{Root: tree(t, files), SearchTime: time.Minute})
	defer s.close()
	runtest.NoError(t, s.start(t.Context()))
	const most = maxIgnoreSteps + maxIgnoreBytes*parseSteps // and one file
	if s.ignoreSteps < maxIgnoreSteps || s.ignoreSteps > most {
		t.Errorf("steps: got %d, want the limit of %d to be reached, and at most %d", s.ignoreSteps, maxIgnoreSteps, most)
	}
	if got := s.result(); s.found != wide || s.ignoredFiles != 1 || !strings.Contains(got, "entries not all .gitignore rules are applied") {
		t.Errorf("got %d found, %d left out, %q, want %d, 1 and a note", s.found, s.ignoredFiles, got[max(0, len(got)-300):], wide)
	}
}

// searcherIn is a search for "one".
func searcherIn(t *testing.T, cfg Config) *searching {
	t.Helper()
	full, err := withDefaults(cfg)
	runtest.NoError(t, err)
	root, err := os.OpenRoot(cfg.Root)
	runtest.NoError(t, err)
	t.Cleanup(func() { _ = root.Close() })
	return &searching{target: &target{&files{Config: full}, root, cfg.Root, ".", "."}, pattern: regexp.MustCompile("one")}
}
