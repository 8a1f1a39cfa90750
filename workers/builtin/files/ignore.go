package files

import (
	"context"
	"io/fs"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Limits of one .gitignore file. Lines above them are not applied.
const (
	ignoreFile     = ".gitignore"
	maxIgnoreBytes = 64 << 10
	maxIgnoreRules = 1000
)

// ignores are the rules of one directory's .gitignore, and of those above it.
type ignores struct {
	above *ignores
	dir   string // "." at the top
	rules []ignoreRule
}

// ignoreRule is one line of a .gitignore file.
type ignoreRule struct {
	pattern string // of doublestar, relative to the directory of the file
	include bool   // the line begins with "!": what matches is searched
	dirs    bool   // the line ends with "/": only directories match
}

// parseIgnoreRule translates a line. It reports false for a comment, an empty line, and a pattern that is not valid.
func parseIgnoreRule(line string) (rule ignoreRule, ok bool) {
	line = strings.TrimRight(line, "\r\n")
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	if line == "" || len(line) > maxGlob || strings.HasPrefix(line, "#") {
		return rule, false
	}
	line, rule.include = strings.CutPrefix(line, "!")
	line, rule.dirs = strings.CutSuffix(line, "/")
	if strings.Contains(line, "/") {
		line = strings.TrimPrefix(line, "/")
	} else {
		line = "**/" + line
	}
	if strings.HasSuffix(line, "/**") { // what is below the directory, not the directory itself
		line += "/*"
	}
	rule.pattern = escapeBraces(line)
	return rule, line != "**/" && doublestar.ValidatePattern(rule.pattern)
}

// escapeBraces makes braces literal: they have no meaning in a .gitignore file.
func escapeBraces(line string) string {
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && i+1 < len(line):
			b.WriteByte(c)
			i++
		case c == '{' || c == '}':
			b.WriteByte('\\')
		}
		b.WriteByte(line[i])
	}
	return b.String()
}

// readIgnores adds the rules of a directory to those above it. A .gitignore that is a link, that is too large, or
// that the gate's rules deny, is not applied.
func (s *searching) readIgnores(dir string, above *ignores) *ignores {
	name := path.Join(dir, ignoreFile)
	info, err := s.root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxIgnoreBytes || s.check("read_file", name) != nil {
		return above
	}
	content, _, err := s.load(s.root, name)
	if err != nil {
		return above
	}
	s.read += int64(len(content))
	own := &ignores{above: above, dir: dir}
	for line := range strings.Lines(content) {
		if rule, ok := parseIgnoreRule(line); ok && len(own.rules) < maxIgnoreRules {
			own.rules = append(own.rules, rule)
		}
	}
	return own
}

// ignoresAbove reads the rules of all directories above one, from the top.
func (s *searching) ignoresAbove(ctx context.Context, dir string) (found *ignores, err error) {
	if dir == "." {
		return nil, nil
	}
	found = s.readIgnores(".", nil)
	for i := range len(dir) {
		if dir[i] != '/' {
			continue
		}
		if err := s.out(ctx); err != nil {
			return nil, err
		}
		found = s.readIgnores(dir[:i], found)
	}
	return found, nil
}

// ignored reports whether the rules leave out an entry. The last rule that matches in the file
// nearest to the entry decides. Matching ends with ctx: hostile files may have many rules.
func (g *ignores) ignored(ctx context.Context, name string, e fs.DirEntry) bool {
	for ; g != nil; g = g.above {
		relative := name
		if g.dir != "." {
			relative = strings.TrimPrefix(name, g.dir+"/")
		}
		for i := len(g.rules) - 1; i >= 0; i-- {
			rule := &g.rules[i]
			if ctx.Err() != nil {
				return false
			}
			if (e.IsDir() || !rule.dirs) && doublestar.MatchUnvalidated(rule.pattern, relative) {
				return !rule.include
			}
		}
	}
	return false
}
