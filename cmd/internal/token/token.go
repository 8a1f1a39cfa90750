// Package token makes ids of other systems' names.
package token

import (
	"strings"

	"github.com/lash-go/lash/events"
)

// Of replaces what a token may not hold, and cuts it to a token's length. Of nothing it makes nothing.
func Of(name string) string {
	token := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '-'
	}, name)
	return token[:min(len(token), events.MaxTokenBytes)]
}
