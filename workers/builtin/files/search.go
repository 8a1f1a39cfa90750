package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/lash-go/lash/session/plugin"
)

// Limits of the match of one line, which cannot be stopped: it takes at most maxProgram times maxSearched steps.
const (
	maxPattern  = 1000     // bytes of a pattern
	maxProgram  = 2000     // instructions that a pattern compiles to
	maxSearched = 32 << 10 // bytes of a line
	maxLine     = 400      // bytes of a line that are shown
	maxDepth    = 4096     // bytes of a path
)

type searchRequest struct {
	Pattern string `json:"pattern" jsonschema:"a regular expression (RE2)"`
	Path    string `json:"path,omitempty" jsonschema:"a directory or a file; by default everything"`
	Files   string `json:"files,omitempty" jsonschema:"searches only the files that this pattern matches, such as *.go or src/**/*.{ts,tsx}: by name, or with a slash by path"`
}

func (r searchRequest) path() string { return r.Path }

// compile rejects a pattern that costs too much to match. A repetition is a multiple of its operand: a short pattern
// may compile to a large program.
func compile(pattern string) (*regexp.Regexp, error) {
	if len(pattern) > maxPattern {
		return nil, plugin.InvalidArgs("pattern: has %d bytes, the limit is %d", len(pattern), maxPattern)
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, plugin.InvalidArgs("pattern: %v", err)
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, plugin.InvalidArgs("pattern: %v", err)
	}
	if n := len(program.Inst); n > maxProgram {
		return nil, plugin.InvalidArgs("pattern: compiles to %d instructions, the limit is %d; repeat less", n, maxProgram)
	}
	return regexp.Compile(pattern)
}

// searching is the state of one search.
type searching struct {
	*files
	root    *os.Root
	pattern *regexp.Regexp
	only    glob

	text         strings.Builder
	found        int
	visited      int
	read         int64 // bytes
	denied       int
	ignoredFiles int    // left out by .gitignore
	ignoredDirs  int    // likewise, with all files below them
	ignoreSteps  int64  // work of .gitignore rules, at most maxIgnoreSteps and one match or file
	unignored    int    // entries to which not all rules were applied
	long         int    // lines that are too long to be searched
	stopped      string // the limit that ended the search; empty if it is complete
}

// errStopped ends a search at a limit. The result has the lines found before it.
var errStopped = errors.New("stopped")

// search leaves out files that are not text, are too large or are links, directories that begin with a dot,
// and what .gitignore files name. A file that is itself the path of the request is searched in any case. It waits
// while as many searches run as may: one reply can ask for a thousand, and each uses a core.
func (f *files) search(ctx context.Context, root *os.Root, _ plugin.Call, in searchRequest) (string, error) {
	top, err := clean(in.Path)
	if err != nil {
		return "", err
	}
	pattern, err := compile(in.Pattern)
	if err != nil {
		return "", err
	}
	only, err := compileGlob(in.Files)
	if err != nil {
		return "", err
	}
	select {
	case f.searches <- struct{}{}:
		defer func() { <-f.searches }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	s := &searching{files: f, root: root, pattern: pattern, only: only}
	bounded, cancel := context.WithTimeout(ctx, f.SearchTime)
	defer cancel()
	if err := s.start(bounded, top); err != nil && !errors.Is(err, errStopped) {
		return "", err
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	return s.result(), nil
}

func (s *searching) stop(format string, args ...any) error {
	s.stopped = fmt.Sprintf(format, args...)
	return errStopped
}

// out stops a search at its time limit.
func (s *searching) out(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return s.stop("the time limit is %v", s.SearchTime)
}

func (s *searching) start(ctx context.Context, top string) error {
	info, err := s.root.Stat(top)
	switch {
	case err != nil:
		return badPath(top, err)
	case info.IsDir():
		return s.dirs(ctx, top)
	case !s.only.selects(top):
		return nil
	}
	return s.file(ctx, top)
}

// dirs searches a directory tree in the order of names. It has a list instead of a recursion: trees may be deep.
func (s *searching) dirs(ctx context.Context, top string) error {
	type item struct {
		name  string
		dir   bool
		above *ignores // of the directory that has the entry
	}
	above, err := s.ignoresAbove(ctx, top)
	if err != nil {
		return err
	}
	for left := []item{{top, true, above}}; len(left) > 0; {
		next := left[len(left)-1]
		left = left[:len(left)-1]
		if err := s.out(ctx); err != nil {
			return err
		}
		if !next.dir {
			if err := s.file(ctx, next.name); err != nil {
				return err
			}
			continue
		}
		entries, err := s.entries(s.root, next.name, s.MaxVisited-s.visited)
		if failure, ok := errors.AsType[*plugin.Failure](err); ok && failure.Class == plugin.ClassResourceLimit {
			return s.stop("the limit is %d visited entries", s.MaxVisited)
		}
		if err != nil && next.name == top {
			return err
		}
		s.visited += len(entries)
		rules := s.readIgnores(next.name, next.above)
		for i := len(entries) - 1; i >= 0; i-- {
			e := entries[i]
			name := path.Join(next.name, e.Name())
			if e.IsDir() && strings.HasPrefix(e.Name(), ".") || e.Type()&^fs.ModeDir != 0 || len(name) > maxDepth {
				continue
			}
			if s.ignored(ctx, rules, name, e) {
				s.countIgnored(e)
				continue
			}
			if err := s.out(ctx); err != nil {
				return err
			}
			if e.IsDir() || s.only.selects(name) {
				left = append(left, item{name, e.IsDir(), rules})
			}
		}
	}
	return nil
}

func (s *searching) countIgnored(e fs.DirEntry) {
	if e.IsDir() {
		s.ignoredDirs++
	} else {
		s.ignoredFiles++
	}
}

// file searches one file, unless the rules deny search_files or read_file for it.
func (s *searching) file(ctx context.Context, name string) error {
	if s.check("search_files", name) != nil || s.check("read_file", name) != nil {
		s.denied++
		return nil
	}
	content, _, err := s.load(s.root, name)
	if err != nil {
		return nil //nolint:nilerr // files that cannot be read are left out
	}
	if s.read += int64(len(content)); s.read > s.MaxSearched {
		return s.stop("the limit is %d searched bytes", s.MaxSearched)
	}
	n := 0
	for line := range strings.Lines(content) {
		n++
		if err := s.out(ctx); err != nil {
			return err
		}
		line = strings.TrimRight(line, "\r\n")
		if len(line) > maxSearched {
			s.long++
			continue
		}
		if !s.pattern.MatchString(line) {
			continue
		}
		if s.found++; s.found > s.MaxFound {
			return s.stop("there is more than these %d lines", s.MaxFound)
		}
		fmt.Fprintf(&s.text, "%s:%d: %s\n", name, n, strings.ToValidUTF8(line[:min(len(line), maxLine)], ""))
	}
	return nil
}

// result is the found lines, and notes on what was not searched.
func (s *searching) result() string {
	if s.found == 0 && s.stopped == "" {
		s.text.WriteString("[nothing found]")
		if s.denied+s.ignoredFiles+s.ignoredDirs+s.unignored+s.long > 0 {
			s.text.WriteString("\n")
		}
	}
	write := func(yes bool, format string, args ...any) {
		if yes {
			fmt.Fprintf(&s.text, format, args...)
		}
	}
	write(s.denied > 0, "[%d files are not allowed here, and not searched]\n", s.denied)
	write(s.ignoredFiles+s.ignoredDirs > 0, "[%d files and %d directories are left out by .gitignore]\n", s.ignoredFiles, s.ignoredDirs)
	write(s.unignored > 0, "[for %d entries not all .gitignore rules are applied: they take too long here; give a path]\n", s.unignored)
	write(s.long > 0, "[%d lines above the limit of %d bytes are not searched]\n", s.long, maxSearched)
	write(s.stopped != "" && s.found <= s.MaxFound, "[the search stopped after %d entries and %d bytes: %s]\n", s.visited, s.read, s.stopped)
	write(s.found > s.MaxFound, "[%s]\n", s.stopped)
	return s.text.String()
}
