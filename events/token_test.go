package events_test

import (
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
)

func TestTokenOfName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"a": "a", "a b/c.d": "a-b-c-d", "": "", strings.Repeat("x", 80): strings.Repeat("x", 64), "é": "-",
	} {
		if got := events.TokenOf(name); got != want {
			t.Errorf("token of %q: got %q, want %q", name, got, want)
		}
	}
}
