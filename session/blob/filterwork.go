package blob

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lash-go/lash/events"
)

// Limits of a filter.
const (
	maxPatterns     = 256
	maxPatternBytes = 1000
	maxPatternSteps = 5000             // instructions of one pattern: repetitions like {1,1000} multiply what they repeat
	maxFilterTime   = 10 * time.Second // of all patterns on one event
	// maxUnwatched bounds the work of one pattern on one text that does not look at the time: its instructions times the
	// bytes. That takes a second or two.
	maxUnwatched = 1 << 27
)

type pattern struct {
	*regexp.Regexp
	steps int            // instructions of its program: the most that it does for one byte
	later *regexp.Regexp // any character, and then the pattern as its group
}

// newPattern compiles a pattern. Errors: those of package regexp, [events.ErrTooLarge], [events.ErrInvalid].
func newPattern(line string) (p pattern, err error) {
	if len(line) > maxPatternBytes {
		return p, fmt.Errorf("%w: the limit of a pattern is %d bytes", events.ErrTooLarge, maxPatternBytes)
	}
	if p.Regexp, err = regexp.Compile(line); err != nil {
		return p, err
	}
	parsed, err := syntax.Parse(line, syntax.Perl)
	if err != nil {
		return p, err
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return p, err
	}
	p.steps = len(prog.Inst)
	switch {
	case p.steps > maxPatternSteps:
		return p, fmt.Errorf("%w: the pattern has %d instructions, the limit is %d", events.ErrTooLarge, p.steps, maxPatternSteps)
	case mayBeEmpty(parsed) || p.MatchString(Redacted):
		return p, fmt.Errorf("%w: the pattern matches the empty text, or %s", events.ErrInvalid, Redacted)
	}
	p.later, err = regexp.Compile("(?s:.)(" + line + ")")
	return p, err
}

// mayBeEmpty reports whether an expression matches without a character, at some place of some text.
func mayBeEmpty(e *syntax.Regexp) bool {
	switch e.Op { //nolint:exhaustive // the others match characters
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary,
		syntax.OpStar, syntax.OpQuest:
		return true
	case syntax.OpRepeat:
		return e.Min == 0 || mayBeEmpty(e.Sub[0])
	case syntax.OpPlus, syntax.OpCapture:
		return mayBeEmpty(e.Sub[0])
	case syntax.OpAlternate:
		return slices.ContainsFunc(e.Sub, mayBeEmpty)
	case syntax.OpConcat:
		return !slices.ContainsFunc(e.Sub, func(sub *syntax.Regexp) bool { return !mayBeEmpty(sub) })
	}
	return false
}

// filterWork is a filter's work on one event. After its first error it changes nothing more, and the event is refused.
type filterWork struct {
	*Filter
	ctx context.Context //nolint:containedctx // of one call
	err error
}

func (f *Filter) work(ctx context.Context) (*filterWork, context.CancelFunc) {
	ctx, stop := context.WithTimeoutCause(ctx, maxFilterTime, fmt.Errorf("%w: the filter needs more than %v for one event", events.ErrTooLarge, maxFilterTime))
	return &filterWork{Filter: f, ctx: ctx}, stop
}

// text is the text with [Redacted] in place of each match.
func (f *filterWork) text(text string) string {
	for i := range f.patterns {
		if text == "" || !f.goesOn() {
			return text
		}
		p := &f.patterns[i]
		if prefix, _ := p.LiteralPrefix(); prefix != "" && !strings.Contains(text, prefix) {
			continue
		}
		if len(text) <= maxUnwatched/p.steps {
			text = p.ReplaceAllLiteralString(text, Redacted)
		} else {
			text = f.replaceWatched(p, text)
		}
	}
	return text
}

// goesOn reports whether there is time left.
func (f *filterWork) goesOn() bool {
	if f.err == nil && f.ctx.Err() != nil {
		f.err = fmt.Errorf("filter: %w", context.Cause(f.ctx))
	}
	return f.err == nil
}

// replaceWatched is [regexp.Regexp.ReplaceAllLiteralString], and stops with the time. It is slower.
func (f *filterWork) replaceWatched(p *pattern, text string) string {
	var out strings.Builder
	at := 0
	found := p.FindReaderIndex(&watchedReader{text: text, work: f})
	for found != nil && f.goesOn() {
		out.WriteString(text[at:found[0]])
		out.WriteString(Redacted)
		at = found[1]
		_, size := utf8.DecodeLastRuneInString(text[:at]) // what \b and ^ look at
		begin := at - size
		if found = p.later.FindReaderSubmatchIndex(&watchedReader{text: text[begin:], work: f}); found != nil {
			found = []int{begin + found[2], begin + found[3]}
		}
	}
	if at == 0 || !f.goesOn() {
		return text
	}
	out.WriteString(text[at:])
	return out.String()
}

// watchedReader reads a text up to its end or the end of the time.
type watchedReader struct {
	text string
	work *filterWork
	read int // runes
}

func (r *watchedReader) ReadRune() (rune, int, error) {
	if r.read++; r.text == "" || r.read%1024 == 0 && !r.work.goesOn() {
		return 0, 0, io.EOF
	}
	c, size := utf8.DecodeRuneInString(r.text)
	r.text = r.text[size:]
	return c, size, nil
}
