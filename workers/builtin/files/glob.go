package files

import (
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/text/unicode/norm"

	"github.com/lash-go/lash/session/plugin"
)

// Limits of a glob pattern. One match takes at most about a million steps for each combination of alternatives.
const (
	maxGlob         = 256 // bytes of a pattern
	maxAlternatives = 64  // combinations of the alternatives of a pattern: {a,b}{c,d} has 4
)

// glob selects files. A pattern without a slash matches the name alone; any other matches the whole path.
// The empty glob selects all files.
type glob string

// compileGlob rejects a pattern that is not valid, or that costs too much to match.
func compileGlob(pattern string) (glob, error) {
	if len(pattern) > maxGlob {
		return "", plugin.InvalidArgs("files: has %d bytes, the limit is %d", len(pattern), maxGlob)
	}
	pattern = strings.TrimPrefix(norm.NFC.String(pattern), "./")
	if strings.HasSuffix(pattern, "/") { // a directory: what is below it
		pattern += "**"
	}
	if !doublestar.ValidatePattern(pattern) {
		return "", plugin.InvalidArgs("files: %q is not a valid pattern", pattern)
	}
	if n := alternatives(pattern); n > maxAlternatives {
		return "", plugin.InvalidArgs("files: has %d or more combinations of alternatives, the limit is %d", n, maxAlternatives)
	}
	return glob(pattern), nil
}

func (g glob) selects(name string) bool {
	switch {
	case g == "":
		return true
	case !strings.Contains(string(g), "/"):
		name = path.Base(name)
	}
	return doublestar.MatchUnvalidated(string(g), norm.NFC.String(name))
}

// alternatives is an upper bound of how many patterns without braces a pattern stands for. It stops at the first
// product above maxAlternatives.
func alternatives(pattern string) int {
	product := 1
	var open []int // alternatives of each brace that is open
	for i := 0; i < len(pattern) && product <= maxAlternatives; i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '[':
			i = classEnd(pattern, i)
		case '{':
			open = append(open, 1)
		case ',':
			for n := range open {
				open[n]++
			}
		case '}':
			if last := len(open) - 1; last >= 0 {
				product *= open[last]
				open = open[:last]
			}
		}
	}
	return product
}

// classEnd is the index of the bracket that ends the character class which begins at an index. Braces and commas inside
// a class are literal: doublestar finds its end in the same way.
func classEnd(pattern string, begin int) int {
	for i := begin + 1; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case ']':
			return i
		}
	}
	return len(pattern)
}
