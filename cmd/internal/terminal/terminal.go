// Package terminal is what programs print through: whatever they print, of
// histories, models, tools, servers or errors, a terminal shows and does not act on.
package terminal

import (
	"io"
	"regexp"
	"sync"
	"unicode/utf8"

	"github.com/lash-go/lash/session/transcript"
)

// Writer escapes what it is given, as [transcript.Visible] says, text and JSON
// alike. It is safe for concurrent use.
type Writer struct {
	mu   sync.Mutex
	w    io.Writer
	rest []byte // the beginning of a character that the next write ends
}

// New makes a writer. Close ends it, and leaves w open.
func New(w io.Writer) *Writer { return &Writer{w: w} }

// Write implements [io.Writer].
func (t *Writer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	data := append(t.rest, p...)
	whole := len(data) - begun(data)
	t.rest = append([]byte(nil), data[whole:]...)
	if _, err := io.WriteString(t.w, transcript.Visible(string(data[:whole]))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// begun is how many bytes at the end are the beginning of a character.
func begun(data []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(data); n++ {
		if tail := data[len(data)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// Color switches to one of the program's own colours, an ANSI code as "31", and back: "0".
func (t *Writer) Color(code string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := io.WriteString(t.w, "\x1b["+code+"m")
	return err
}

// Close writes what is no whole character.
func (t *Writer) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := io.WriteString(t.w, transcript.Visible(string(t.rest)))
	t.rest = nil
	return err
}

// credentials are what stands before the host of a URL, or, where it is no URL, before a last @.
var credentials = regexp.MustCompile(`:(//?)(?:[^\s/"']*|[^\s"']*)@`)

// Redacted is an error's text without the users, passwords and tokens of the URLs in it.
func Redacted(text string) string { return credentials.ReplaceAllString(text, ":${1}xxxxx@") }
