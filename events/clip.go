package events

import "unicode/utf8"

// Clip shortens text to at most limit bytes and ends a shortened text with mark. It does not cut UTF-8 characters.
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
