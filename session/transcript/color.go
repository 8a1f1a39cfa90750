package transcript

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/lash-go/lash/events"
)

// ANSI colours.
const (
	plain   = "0"
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
	if text == "" {
		p.write("\n")
		return
	}
	p.write(strings.Repeat("    ", depth))
	if color == plain || p.opts.Color == nil {
		p.write(text + "\n")
		return
	}
	p.color(color)
	p.write(text)
	p.color(plain)
	p.write("\n")
}

func (p *Printer) color(code string) {
	if p.err == nil {
		p.err = p.opts.Color(code)
	}
}

// Visible returns a text that a terminal only displays. Control characters, characters that reorder or hide text, and
// bytes that are not UTF-8 become escapes, for example \u001b and \xff. Line breaks and tabs stay. UTF-8 JSON, as
// encoders write it, stays JSON with the same value.
func Visible(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case hidden(r) && r != utf8.RuneError:
			for _, unit := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		default:
			b.WriteString(s[:size])
		}
		s = s[size:]
	}
	return b.String()
}

// VisibleLine is [Visible] for text inside a line: line breaks and tabs become escapes too.
func VisibleLine(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(Visible(s), "\n", `\n`), "\t", `\t`)
}

// hidden reports whether a character may need an escape: a terminal acts on it or does not display it, or it replaces
// bytes that are not UTF-8. The two variation selectors of emoji stay.
func hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r == 0xfe0e || r == 0xfe0f:
		return false
	case r < ' ' || r == utf8.RuneError:
		return true
	case r < 0x7f:
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
