package program

import (
	"io"
	"regexp"
	"sync"
	"unicode/utf8"

	"github.com/lash-go/lash/session/transcript"
)

// Terminal escapes text and JSON as [transcript.Visible] does. It is safe for concurrent use.
type Terminal struct {
	mu   sync.Mutex
	w    io.Writer
	tail []byte // the first bytes of a character that the next write completes
}

// NewTerminal makes a writer. Close flushes it, and does not close w.
func NewTerminal(w io.Writer) *Terminal { return &Terminal{w: w} }

// Write implements [io.Writer].
func (t *Terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	data := append(t.tail, p...)
	complete := len(data) - incompleteTail(data)
	t.tail = append([]byte(nil), data[complete:]...)
	if _, err := io.WriteString(t.w, transcript.Visible(string(data[:complete]))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// incompleteTail is the number of bytes at the end that are an incomplete character.
func incompleteTail(data []byte) int {
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

// Close writes the remaining incomplete character.
func (t *Terminal) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := io.WriteString(t.w, transcript.Visible(string(t.tail)))
	t.tail = nil
	return err
}

// credentials are the part before the host of a URL, or, where it is no URL, before the last @.
var credentials = regexp.MustCompile(`:(//?)(?:[^\s/"']*|[^\s"']*)@`)

// WithoutCredentials is an error's text without the users, passwords and tokens of its URLs.
func WithoutCredentials(text string) string { return credentials.ReplaceAllString(text, ":${1}xxxxx@") }
