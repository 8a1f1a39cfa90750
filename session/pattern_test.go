package session_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/session/pattern"
)

// TestMatch compares patterns with equivalent regular expressions.
func TestMatch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, text := rapid.StringMatching(`[ab/*?\[]{0,6}`).Draw(t, "pattern"), rapid.StringMatching(`[ab/?\[]{0,6}`).Draw(t, "text")
		want := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(p), `\*`, `.*`) + "$").MatchString(text)
		if got := pattern.Match(p, text, ""); got != want {
			t.Fatalf("%q of %q: got %v, want %v", p, text, got, want)
		}
		if got := pattern.Match(p, text, "|"); got != want {
			t.Fatalf("%q of %q, which has no |: got %v, want %v", p, text, got, want)
		}
		if pattern.Match(p, text, "/") && strings.Count(text, "/") != strings.Count(p, "/") {
			t.Fatalf("%q of %q without /: a * stands for one", p, text)
		}
	})
}
