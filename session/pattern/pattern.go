// Package pattern matches names, paths and commands with the patterns of rules and locks. It is pure and imports no
// package of this repository.
package pattern

import "strings"

// Match reports whether text matches pattern. Each * of the pattern matches any text, including the empty one,
// without the characters in without. All other characters match themselves.
func Match(pattern, text, without string) bool {
	pieces := strings.Split(pattern, "*")
	last := len(pieces) - 1
	if last == 0 || !strings.HasPrefix(text, pieces[0]) {
		return pattern == text
	}
	text = text[len(pieces[0]):]
	for _, piece := range pieces[1:last] {
		before, after, found := strings.Cut(text, piece)
		if !found || strings.ContainsAny(before, without) {
			return false
		}
		text = after
	}
	rest, found := strings.CutSuffix(text, pieces[last])
	return found && !strings.ContainsAny(rest, without)
}
