package events

import (
	"strings"
)

// TokenOf replaces the characters that an id may not contain, and cuts the name to the length of an id. An empty name stays
// empty.
func TokenOf(name string) string {
	token := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '-'
	}, name)
	return token[:min(len(token), MaxTokenBytes)]
}
