package events_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
)

func TestClip(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		limit int
		mark  string
		want  string
	}{
		{"", 0, "", ""},
		{"abc", 3, "..", "abc"},
		{"abcd", 3, "", "abc"},
		{"abcd", 3, "..", "a.."},
		{"aé", 2, "", "a"},
		{"éé", 3, "", "é"},
		{"世界", 5, "", "世"},
		{"世界", 5, "..", "世.."},
		{"世界", 4, "..", ".."},
		{"é", 1, "", ""},
	} {
		if got := events.Clip(c.text, c.limit, c.mark); got != c.want {
			t.Errorf("%q, %d, %q: got %q, want %q", c.text, c.limit, c.mark, got, c.want)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		text, limit := rapid.String().Draw(rt, "text"), rapid.IntRange(4, 40).Draw(rt, "limit")
		got := events.Clip(text, limit, "...")
		kept := strings.TrimSuffix(got, "...")
		if len(got) > limit || !utf8.ValidString(got) || !strings.HasPrefix(text, kept) || len(text) <= limit && got != text || len(text) > limit && len(kept) < limit-6 {
			rt.Fatalf("%q, %d: got %q", text, limit, got)
		}
	})
}
