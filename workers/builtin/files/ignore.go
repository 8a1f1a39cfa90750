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

// maxIgnoreSteps bounds the work of all .gitignore files in one search, in steps of [ignoreRule.steps]: a few seconds.
// Nested files multiply their rules with all entries below them. A search above the limit applies no more rules, and
// its result has a note.
const maxIgnoreSteps = 4_000_000_000

// parseSteps is the work of one byte of a .gitignore file.
const parseSteps = 16

// ignores are the rules of one directory's .gitignore, and of those above it.
type ignores struct {
	above *ignores
	dir   string // "." at the top
	rules []ignoreRule
}

// ignoreRule is one line of a .gitignore file.
type ignoreRule struct {
	pattern string // of doublestar, relative to the directory of the file, or of the name
	name    bool   // the pattern is of the name alone, at any depth
	literal bool   // the pattern has no special characters
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
	if rule.name = !strings.Contains(line, "/"); !rule.name {
		line = strings.TrimPrefix(line, "/")
	}
	if strings.HasSuffix(line, "/**") { // what is below the directory, not the directory itself
		line += "/*"
	}
	rule.pattern, rule.literal = escapeBraces(line), !strings.ContainsAny(line, `*?[\{}`)
	return rule, line != "" && doublestar.ValidatePattern(rule.pattern)
}

// matches reports whether the rule is about an entry. relative is its path from the directory of the rule's file.
func (r *ignoreRule) matches(relative string, e fs.DirEntry) bool {
	if r.dirs && !e.IsDir() {
		return false
	}
	if r.name {
		relative = e.Name()
	}
	if r.literal {
		return relative == r.pattern
	}
	return doublestar.MatchUnvalidated(r.pattern, relative)
}

// steps is an upper bound of the work of one match.
func (r *ignoreRule) steps(relative string, e fs.DirEntry) int64 {
	switch {
	case r.literal:
		return int64(len(r.pattern))
	case r.name:
		relative = e.Name()
	}
	return int64(len(r.pattern)) * int64(len(relative)+1)
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
	if s.ignoreSteps >= maxIgnoreSteps {
		return above
	}
	name := path.Join(dir, ignoreFile)
	at, err := s.in(dir)
	if err != nil {
		return above
	}
	info, err := at.Lstat(ignoreFile)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxIgnoreBytes || s.check("read_file", name) != nil {
		return above
	}
	content, _, err := s.load(at, ignoreFile, maxIgnoreBytes)
	if err != nil {
		return above
	}
	s.read += int64(len(content))
	s.ignoreSteps += int64(len(content)) * parseSteps
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

// ignored reports whether the rules leave out an entry. The last rule that matches in the file nearest to the entry
// decides. It applies no rule once ctx has ended, or the steps are used up: hostile files may have many rules.
func (s *searching) ignored(ctx context.Context, g *ignores, name string, e fs.DirEntry) bool {
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
			if s.ignoreSteps >= maxIgnoreSteps {
				s.unignored++
				return false
			}
			if s.ignoreSteps += rule.steps(relative, e); rule.matches(relative, e) {
				return !rule.include
			}
		}
	}
	return false
}
