package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
)

// TestLongPatternsAreBounded compiles nested repetitions, alternatives and classes.
func TestLongPatternsAreBounded(t *testing.T) {
	t.Parallel()
	const repeats = "0,1000"
	atoms := []string{"a", "[^\\x00-\\x{10FFFF}]", "\\pL", "(?i:straße)", "(a|b|ab)", "(a*)*", ".", "^$", "\\b"}
	around := []string{"(%s)*", "(%s)+?", "(%s){" + repeats + "}", "(%s|x){500}", "((%s)?){999}", "(?:%s%[1]s%[1]s%[1]s%[1]s%[1]s%[1]s%[1]s)"}
	line := strings.Repeat("a", maxSearched)
	accepted, refused := 0, 0
	for _, atom := range atoms {
		level := []string{atom}
		for range 3 {
			var next []string
			for _, inner := range level {
				for _, outer := range around {
					next = append(next, fmt.Sprintf(outer, inner))
				}
			}
			level = next
			for _, pattern := range level {
				re, err := compile(pattern + "b")
				if err != nil {
					refused++
					if failure := (*plugin.Failure)(nil); !asFailure(err, &failure) || !strings.HasPrefix(failure.Message, "pattern: ") {
						t.Errorf("%.80s: got %v, want a refusal that names the pattern", pattern, err)
					}
					continue
				}
				if accepted++; accepted%100 == 0 { // each ends: the largest programs come last
					re.MatchString(line[:1000])
				}
			}
		}
	}
	if accepted == 0 || refused == 0 {
		t.Errorf("got %d accepted, %d refused, want some of both", accepted, refused)
	}
	for pattern, want := range map[string]string{
		"(a*)*b": "", "(x{1,1000}){1,1000}": "pattern: error parsing regexp: invalid repeat count", strings.Repeat("a", maxPattern): "",
		strings.Repeat("a", maxPattern+1): "pattern: has 1001 bytes, the limit is 1000", strings.Repeat("x{1000}", 3): "pattern: compiles to 3002 instructions, the limit is 2000",
		strings.Repeat("(", 900) + strings.Repeat(")", 900): "pattern: has 1800 bytes",
		`foo\nbar`: "pattern: lines are searched one by one", "two\r$": "pattern: lines are searched one by one", `two\r?$`: "", `[^a]\s+`: "",
	} {
		_, err := compile(pattern)
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && !strings.Contains(got, want) {
			t.Errorf("%.40s: got %v, want %q", pattern, err, want)
		}
	}
}

func asFailure(err error, to **plugin.Failure) bool {
	failure, ok := err.(*plugin.Failure) //nolint:errorlint // it is not wrapped
	*to = failure
	return ok
}

// searchIn runs one search.
func searchIn(ctx context.Context, t *testing.T, cfg Config, req searchRequest) string {
	t.Helper()
	f, err := withDefaults(cfg)
	runtest.NoError(t, err)
	one := &files{Config: f, searches: make(chan struct{}, 1)}
	out, err := in(one, "search_files", one.search)(ctx, plugin.Call{}, req)
	if err != nil {
		return err.Error()
	}
	return out
}

// TestSearchesAtOnce has as many searches as may run: another one waits until one of them ends, and not beyond its context.
// All sessions of a process share the limit.
func TestSearchesAtOnce(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"a": "one"})
	factory, err := Factory(Config{Root: dir})
	runtest.NoError(t, err)
	var sessions [2]*files
	for i := range sessions {
		p, err := factory.Build(plugin.BuildContext{})
		runtest.NoError(t, err)
		sessions[i] = p.(*files)
	}
	search := in(sessions[1], "search_files", sessions[1].search)
	for range cap(sessions[0].searches) {
		sessions[0].searches <- struct{}{}
	}
	if most := runtime.GOMAXPROCS(0); cap(sessions[0].searches) > max(most/2, 1) {
		t.Errorf("got %d searches at once on %d cores, want half", cap(sessions[0].searches), most)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if out, err := search(ctx, plugin.Call{}, searchRequest{Pattern: "one"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a free place: got %q, %v, want %v", out, err, context.DeadlineExceeded)
	}
	for range 2 { // each gives its place back
		<-sessions[0].searches
		if out, err := search(t.Context(), plugin.Call{}, searchRequest{Pattern: "one"}); err != nil || out != "a:1: one\n" {
			t.Errorf("with a free place: got %q, %v, want the line", out, err)
		}
		sessions[0].searches <- struct{}{}
	}
}

// TestSearchesAreBounded expects the name of each limit in the result, after the lines found before it.
func TestSearchesAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		runtest.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		runtest.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for i := range 10 {
		write(fmt.Sprintf("many/%d", i), "one\n")
	}
	write("long", strings.Repeat("one", maxSearched)+"\none\n")
	write("deep/"+strings.Repeat("d/", 200)+"x", "one\n")
	runtest.NoError(t, syscall.Mkfifo(filepath.Join(dir, "many/pipe"), 0o600))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	const pipe = "[not searched, no regular file: many/pipe]\n"
	for name, tc := range map[string]struct {
		ctx  context.Context
		cfg  Config
		path string
		want string
	}{
		"entries": {cfg: Config{MaxVisited: 4}, path: "many", want: "[the search stopped after 0 entries and 0 bytes: the limit is 4 visited entries, and many has more]\n"},
		"bytes":   {cfg: Config{MaxSearched: 8}, path: "many", want: "many/0:1: one\nmany/1:1: one\n" + pipe + "[the search stopped after 11 entries and 12 bytes: the limit is 8 searched bytes]\n"},
		"lines":   {cfg: Config{MaxFound: 1}, path: "many", want: "many/0:1: one\n" + pipe + "[there is more than these 1 lines]\n"},
		"time":    {cfg: Config{SearchTime: time.Nanosecond}, path: "many", want: "[the search stopped after 0 entries and 0 bytes: the time limit is 1ns]\n"},
		"line":    {path: "long", want: "long:1: " + strings.Repeat("one", maxLine)[:maxLine] + " [the line is long, it matches at byte 1]\nlong:2: one\n"},
		"pipe":    {path: "many/pipe", want: "[no file was searched]\n" + pipe},
		"deep":    {path: "deep", want: "deep/" + strings.Repeat("d/", 200) + "x:1: one\n"},
		"ended":   {ctx: ended, path: "many", want: "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.ctx == nil {
				tc.ctx = t.Context()
			}
			tc.cfg.Root = dir
			if got := searchIn(tc.ctx, t, tc.cfg, searchRequest{Pattern: "one", Path: tc.path}); got != tc.want {
				t.Errorf("got %.300q, want %.300q", got, tc.want)
			}
		})
	}
}

// TestSearchNamesWhatItDidNotRead has one of each kind that a search leaves out, alone and beside a file that it reads.
func TestSearchNamesWhatItDidNotRead(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5*maxSearched)
	for name, tc := range map[string]struct {
		files map[string]string
		links map[string]string
		req   searchRequest
		want  string
	}{
		"too large":        {files: map[string]string{"a": "no", "big": long}, want: "[nothing found; files searched: 1]\n[not searched, above the limit of 100000 bytes unless it is the path of the search: big (163840 bytes)]\n"},
		"named large":      {files: map[string]string{"big": long + "\none\n"}, req: searchRequest{Path: "big"}, want: "big:2: one\n"},
		"named, no match":  {files: map[string]string{"big": long}, req: searchRequest{Path: "big"}, want: "[nothing found; files searched: 1]\n"},
		"end of long line": {files: map[string]string{"big": long + "one\r\nno\n"}, req: searchRequest{Path: "big", Pattern: "xone$"}, want: "big:1: " + long[:maxLine] + " [the line is long, it matches at byte 163840]\n"},
		"within a line":    {files: map[string]string{"a": long[:1000] + "one" + long[:1000]}, want: "a:1: " + long[:100] + "one" + long[:297] + " [bytes 901 to 1300 of 2003]\n"},
		"no UTF-8":         {files: map[string]string{"a": "one\n\xe9\none\n"}, want: "a:1: one\n[not searched, no text (UTF-8): a from line 2 on]\n"},
		"long, no UTF-8":   {files: map[string]string{"big": "no\n" + long + "\xe9\n"}, req: searchRequest{Path: "big"}, want: "[no file was searched]\n[not searched, no text (UTF-8): big from line 2 on]\n"},
		"binary":           {files: map[string]string{"a": "\x7fELF\x00\none"}, want: "[no file was searched]\n[not searched, no text (UTF-8): a from line 1 on]\n"},
		"dot folder":       {files: map[string]string{".git/a": "one", "b": "no"}, want: "[nothing found; files searched: 1]\n[not searched, begins with a dot: .git]\n"},
		"link out":         {links: map[string]string{"out": "..", "etc": "/etc/passwd"}, want: "[no file was searched]\n[not searched, a link: etc, out]\n"},
		"many":             {links: map[string]string{"1": "x", "2": "x", "3": "x", "4": "x", "5": "x", "6": "x", "7": "x"}, want: "[no file was searched]\n[not searched, a link: 1, 2, 3, 4, 5 and 2 more]\n"},
		"no such name":     {files: map[string]string{"a": "one"}, req: searchRequest{Files: "*.go"}, want: "[no file was searched: files: *.go selects none that can be]\n"},
		"a folder":         {files: map[string]string{"s/d/a": "one", "b": "one"}, req: searchRequest{Files: "./s/"}, want: "s/d/a:1: one\n"},
		"byte order mark":  {files: map[string]string{"a": "\uFEFFone\n\uFEFFone\n"}, req: searchRequest{Pattern: "^one"}, want: "a:1: one\n"},
		"path by form":     {files: map[string]string{"cafe\u0301/e\u0301": "one\n"}, req: searchRequest{Pattern: "one", Path: "caf\u00e9/\u00e9"}, want: "cafe\u0301/e\u0301:1: one\n"},
		"normal forms":     {files: map[string]string{"cafe\u0301": "caf\u00e9 1\ncafe\u0301 2\ncafe 3\n"}, req: searchRequest{Pattern: "^cafe\u0301 ", Files: "caf\u00e9"}, want: "cafe\u0301:1: caf\u00e9 1\ncafe\u0301:2: caf\u00e9 2\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := tree(t, tc.files)
			for link, to := range tc.links {
				runtest.NoError(t, os.Symlink(to, filepath.Join(dir, link)))
			}
			if tc.req.Pattern == "" {
				tc.req.Pattern = "one"
			}
			if got := searchIn(t.Context(), t, Config{Root: dir, MaxBytes: 100_000}, tc.req); got != tc.want {
				t.Errorf("got %.900q, want %.900q", got, tc.want)
			}
		})
	}
}
