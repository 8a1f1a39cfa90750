package transcript

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/lash-go/lash/events"
)

// ANSI colours.
const (
	plain   = ""
	bold    = "1"
	dim     = "2"
	red     = "31"
	green   = "32"
	yellow  = "33"
	magenta = "35"
	cyan    = "36"
)

func roleColor(role events.Role, head string) string {
	switch {
	case strings.HasPrefix(head, "tool"):
		return dim
	case role == events.RoleUser:
		return cyan
	case role == events.RoleAssistant:
		return green
	default:
		return yellow
	}
}

// line writes one line of text, indented and coloured.
func (p *Printer) line(depth int, color, text string) {
	if p.opts.Color && color != plain && text != "" {
		text = "\x1b[" + color + "m" + text + "\x1b[0m"
	}
	if text != "" {
		text = strings.Repeat("    ", depth) + text
	}
	p.write(text + "\n")
}

// clean shows control characters instead of letting a terminal act on them.
// Line breaks and tabs stay.
func clean(s string) string {
	if !dirty(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case control(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			b.WriteString(s[:size])
		}
		s = s[size:]
	}
	return b.String()
}

// label is [clean] for what stands in a line.
func label(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(clean(s), "\n", `\n`), "\t", `\t`)
}

func dirty(s string) bool {
	for _, r := range s {
		if control(r) || r == utf8.RuneError {
			return true
		}
	}
	return false
}

func control(r rune) bool {
	return r < ' ' && r != '\n' && r != '\t' || 0x7f <= r && r < 0xa0
}
