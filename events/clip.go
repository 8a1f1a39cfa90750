package events

import "unicode/utf8"

// Clip gives a text of at most limit bytes: text itself, or its beginning up to
// the end of a character, and mark. Of UTF-8 it gives UTF-8.
func Clip(text string, limit int, mark string) string {
	if len(text) <= limit {
		return text
	}
	n := max(limit-len(mark), 0)
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + mark
}
