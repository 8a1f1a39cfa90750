package schema

import (
	"errors"
	"fmt"
	"regexp/syntax"
)

// Limits of patterns, in instructions of the compiled expression. A short pattern can have millions of them, because
// repetitions within each other multiply, and a match takes up to one step for each instruction and byte.
const (
	maxPattern  = 2500   // of all patterns that apply to one location of a value
	maxPatterns = 50_000 // of all patterns of a schema, which stay in memory, with their classes
	classRunes  = 10     // bounds of ranges of a class that need the memory of one instruction
)

// addPatterns adds the patterns of a schema, which apply to its value, and to the names of its members.
func (g *graph) addPatterns(n *node, at string, m map[string]any) error {
	list := names(m["patternProperties"])
	if p, ok := m["pattern"].(string); ok {
		list = append(list, p)
	}
	for _, p := range list {
		tree, err := syntax.Parse(p, syntax.Perl)
		if wrong, ok := errors.AsType[*syntax.Error](err); ok {
			return fmt.Errorf("%s: pattern %.100q: %s", clip(at), p, wrong.Code) // the error itself quotes all of it
		}
		if err != nil {
			return fmt.Errorf("%s: pattern %.100q: %w", clip(at), p, err)
		}
		size, runes := patternSize(tree)
		n.pattern += size
		if g.patterns += size + runes/classRunes; n.pattern > maxPattern || g.patterns > maxPatterns {
			return tooLong(at)
		}
	}
	return nil
}

func tooLong(at string) error {
	return fmt.Errorf("%s: patterns have more than %d steps at one place of a value, or %d in the schema: repeat less often", clip(at), maxPattern, maxPatterns)
}

// patternSize is the number of instructions of a part of a pattern, and of bounds in its classes, which repetitions share.
func patternSize(re *syntax.Regexp) (size, runes float64) {
	for _, sub := range re.Sub {
		n, r := patternSize(sub)
		size, runes = size+n, runes+r
	}
	switch re.Op {
	case syntax.OpLiteral:
		return float64(len(re.Rune)), 0
	case syntax.OpCharClass:
		return 1, float64(len(re.Rune))
	case syntax.OpConcat:
		return size, runes
	case syntax.OpCapture:
		return size + 2, runes
	case syntax.OpAlternate:
		return size + float64(len(re.Sub)), runes
	case syntax.OpRepeat:
		return (size + 1) * float64(max(re.Min, re.Max, 1)), runes
	default:
		return size + 1, runes
	}
}
