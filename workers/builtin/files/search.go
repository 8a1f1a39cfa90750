package files

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/lash-go/lash/events/localfile"
	"github.com/lash-go/lash/session/plugin"
)

// Limits of the match of one line. One of at most maxSearched bytes takes up to maxProgram times maxSearched steps, and cannot be
// stopped; a longer one is matched while it is read, see [longLine].
const (
	maxPattern  = 1000     // bytes of a pattern
	maxProgram  = 2000     // instructions that a pattern compiles to
	maxSearched = 32 << 10 // bytes of a line
	maxLine     = 400      // bytes of a line that are shown
	maxDepth    = 4096     // bytes of a path
	maxNamed    = 5        // files that a result names for each reason why they were not searched
)

type searchRequest struct {
	Pattern string `json:"pattern" jsonschema:"a regular expression (RE2)"`
	Path    string `json:"path,omitempty" jsonschema:"a directory or a file; by default everything"`
	Files   string `json:"files,omitempty" jsonschema:"searches only the files that this pattern matches, such as *.go or src/**/*.{ts,tsx}: by name, or with a slash by path"`
}

func (r searchRequest) path() string { return r.Path }

// needsLineEnd reports whether a pattern asks for the end of a line, which nothing matches.
func needsLineEnd(tree *syntax.Regexp) bool {
	switch tree.Op {
	case syntax.OpLiteral:
		return slices.Contains(tree.Rune, '\n') || slices.Contains(tree.Rune, '\r')
	case syntax.OpCapture, syntax.OpConcat, syntax.OpPlus:
		return slices.ContainsFunc(tree.Sub, needsLineEnd)
	default:
		return false
	}
}

// compile rejects a pattern that cannot match, or costs too much to match. A repetition is a multiple of its operand: a short pattern
// may compile to a large program.
func compile(pattern string) (*regexp.Regexp, error) {
	if len(pattern) > maxPattern {
		return nil, plugin.InvalidArgs("pattern: has %d bytes, the limit is %d", len(pattern), maxPattern)
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, plugin.InvalidArgs("pattern: %v", err)
	}
	if needsLineEnd(tree) {
		return nil, plugin.InvalidArgs("pattern: lines are searched one by one, without their ends: leave out \\n and \\r, or search for one of the lines")
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
	*target
	dir     *os.Root // the open directory: files come in the order of directories. nil: none yet
	dirName string   // its place
	pattern *regexp.Regexp
	only    glob

	text         strings.Builder
	found        int
	visited      int
	read         int64 // bytes
	denied       int
	ignoredFiles int   // left out by .gitignore
	ignoredDirs  int   // likewise, with all files below them
	ignoreSteps  int64 // work of .gitignore rules, at most maxIgnoreSteps and one match or file
	unignored    int   // entries to which not all rules were applied
	searched     int   // files, to their ends
	unread       []unread
	stopped      string // the limit that ended the search; empty if it is complete
}

// unread are files and directories that were not searched, or not to their ends.
type unread struct {
	why   string
	names []string // the first of them
	count int
}

// leave notes what is not searched.
func (s *searching) leave(name, why string) {
	at := slices.IndexFunc(s.unread, func(u unread) bool { return u.why == why })
	if at < 0 {
		at = len(s.unread)
		s.unread = append(s.unread, unread{why: why})
	}
	u := &s.unread[at]
	if u.count++; u.count <= maxNamed {
		u.names = append(u.names, name)
	}
}

// errStopped ends a search at a limit. The result has the lines found before it.
var errStopped = errors.New("stopped")

// search leaves out files that are not text, are too large or are links, directories that begin with a dot,
// and what .gitignore files name. Its result says so. A file that is itself the path of the request is searched whatever its size. It waits
// while as many searches run as may: one reply can ask for a thousand, and each uses a core.
func (f *files) search(ctx context.Context, t *target, _ plugin.Call, in searchRequest) (string, error) {
	pattern, err := compile(norm.NFC.String(in.Pattern))
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
	s := &searching{target: t, pattern: pattern, only: only}
	defer s.close()
	bounded, cancel := context.WithTimeout(ctx, f.SearchTime)
	defer cancel()
	if err := s.start(bounded); err != nil && !errors.Is(err, errStopped) {
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

func (s *searching) start(ctx context.Context) error {
	dir, err := s.in(path.Dir(s.place))
	if err != nil {
		return s.failed(err)
	}
	info, err := dir.Lstat(s.base())
	switch {
	case err != nil:
		return s.failed(err)
	case info.IsDir():
		return s.dirs(ctx, s.place)
	case !s.only.selects(s.place):
		return nil
	}
	return s.file(ctx, s.place, true)
}

// in opens a directory, and keeps it open until the next one.
func (s *searching) in(place string) (*os.Root, error) {
	if s.dir != nil && s.dirName == place {
		return s.dir, nil
	}
	from, rest := s.root, place
	if below, ok := strings.CutPrefix(place, s.dirName+"/"); ok && s.dir != nil {
		from, rest = s.dir, below // a directory of a deep tree comes after the one above it
	}
	dir, err := below(from, rest, 0)
	if err != nil {
		return nil, err
	}
	s.close()
	s.dir, s.dirName = dir, place
	return dir, nil
}

func (s *searching) close() {
	if s.dir != nil {
		_ = s.dir.Close() // it was only read
	}
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
			if err := s.file(ctx, next.name, false); err != nil {
				return err
			}
			continue
		}
		var entries []fs.DirEntry // none where it is gone, or a link now
		dir, err := s.in(next.name)
		if err == nil {
			entries, err = s.entries(dir, s.MaxVisited-s.visited)
		}
		if failure, ok := errors.AsType[*plugin.Failure](err); ok && failure.Class == plugin.ClassResourceLimit {
			return s.stop("the limit is %d visited entries, and %s has more", s.MaxVisited, next.name)
		}
		if err != nil && next.name == top {
			return s.failed(err)
		}
		if err != nil {
			s.leave(next.name, why(err))
		}
		s.visited += len(entries)
		rules := s.readIgnores(next.name, next.above)
		rest := len(left)
		for _, e := range entries {
			name := path.Join(next.name, e.Name())
			if reason := s.skips(name, e); reason != "" {
				s.leave(name, reason)
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
		slices.Reverse(left[rest:]) // the first comes next
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

// skips is why an entry of a directory is not searched; empty if it may be.
func (s *searching) skips(name string, e fs.DirEntry) string {
	switch {
	case len(name) > maxDepth:
		return "the path is too long"
	case e.IsDir() && strings.HasPrefix(e.Name(), "."):
		return "begins with a dot"
	case e.Type()&fs.ModeSymlink != 0:
		return "a link"
	case e.Type()&^fs.ModeDir != 0:
		return "no regular file"
	}
	return ""
}

// why is an error of a file or a directory, without its name.
func why(err error) string {
	if errors.Is(err, localfile.ErrLink) {
		return "a link"
	}
	return strings.TrimPrefix(bareError(err).Error(), "is ")
}

// file searches one file, unless the rules deny search_files or read_file for it. named: the call gave its path.
func (s *searching) file(ctx context.Context, name string, named bool) error {
	if s.check("search_files", name) != nil || s.check("read_file", name) != nil {
		s.denied++
		return nil
	}
	dir, err := s.in(path.Dir(name))
	var file *os.File
	var info fs.FileInfo
	if err == nil {
		file, info, err = openFile(dir, path.Base(name))
	}
	if err != nil {
		s.leave(name, why(err))
		return nil
	}
	defer file.Close() //nolint:errcheck // it is only read
	if !named && info.Size() > s.MaxBytes {
		s.leave(fmt.Sprintf("%s (%d bytes)", name, info.Size()), fmt.Sprintf("above the limit of %d bytes unless it is the path of the search", s.MaxBytes))
		return nil
	}
	lines := bufio.NewReaderSize(file, maxSearched)
	for n := 1; ; n++ {
		line, err := lines.ReadSlice('\n')
		if len(line) == 0 && errors.Is(err, io.EOF) {
			s.searched++
			return nil
		}
		shown, found := "", false
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			shown, found, err = s.longLine(ctx, lines, line)
		case err != nil && !errors.Is(err, io.EOF):
		case !isText(line):
			err = errNoText
		default:
			s.read += int64(len(line))
			if n == 1 {
				line = bytes.TrimPrefix(line, []byte("\uFEFF")) // a byte order mark is no text
			}
			shown, found = s.matched(norm.NFC.Bytes(bytes.TrimRight(line, "\r\n")))
			err = nil
		}
		if err := s.out(ctx); err != nil {
			return err
		}
		if err != nil {
			s.leave(fmt.Sprintf("%s from line %d on", name, n), why(err))
			return nil
		}
		if s.read > s.MaxSearched && !named {
			return s.stop("the limit is %d searched bytes", s.MaxSearched)
		}
		if !found {
			continue
		}
		if s.found++; s.found > s.MaxFound {
			return s.stop("there is more than these %d lines", s.MaxFound)
		}
		fmt.Fprintf(&s.text, "%s:%d: %s\n", name, n, shown)
	}
}

// matched is what is shown of a line, if the pattern matches it.
func (s *searching) matched(line []byte) (shown string, found bool) {
	if !s.pattern.Match(line) {
		return "", false
	}
	if len(line) <= maxLine {
		return string(line), true
	}
	from := 0
	if at := s.pattern.FindIndex(line)[0]; at > maxLine/2 {
		from = at - maxLine/4
	}
	upto := min(len(line), from+maxLine)
	return fmt.Sprintf("%s [bytes %d to %d of %d]", strings.ToValidUTF8(string(line[from:upto]), ""), from+1, upto, len(line)), true
}

// result is the found lines, and notes on what was not searched.
func (s *searching) result() string {
	switch {
	case s.found > 0 || s.stopped != "":
	case s.searched > 0:
		fmt.Fprintf(&s.text, "[nothing found; files searched: %d]\n", s.searched)
	case s.only != "":
		fmt.Fprintf(&s.text, "[no file was searched: files: %s selects none that can be]\n", s.only)
	default:
		s.text.WriteString("[no file was searched]\n")
	}
	write := func(yes bool, format string, args ...any) {
		if yes {
			fmt.Fprintf(&s.text, format, args...)
		}
	}
	write(s.denied > 0, "[%d files are not allowed here, and not searched]\n", s.denied)
	write(s.ignoredFiles+s.ignoredDirs > 0, "[%d files and %d directories are left out by .gitignore]\n", s.ignoredFiles, s.ignoredDirs)
	write(s.unignored > 0, "[for %d entries not all .gitignore rules are applied: they take too long here; give a path]\n", s.unignored)
	for _, u := range s.unread {
		names := strings.ToValidUTF8(strings.Join(u.names, ", "), "\uFFFD")
		write(u.count <= maxNamed, "[not searched, %s: %s]\n", u.why, names)
		write(u.count > maxNamed, "[not searched, %s: %s and %d more]\n", u.why, names, u.count-maxNamed)
	}
	write(s.stopped != "" && s.found <= s.MaxFound, "[the search stopped after %d entries and %d bytes: %s]\n", s.visited, s.read, s.stopped)
	write(s.found > s.MaxFound, "[%s]\n", s.stopped)
	return s.text.String()
}
