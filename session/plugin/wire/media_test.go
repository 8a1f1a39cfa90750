package wire_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/session/plugin/wire"
)

// TestMediaTypes generates types of the form of RFC 9110, which are accepted, and breaks each at one place: every broken one is
// refused, and the error names the field and is short.
func TestMediaTypes(t *testing.T) {
	t.Parallel()
	name := rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,30}`)
	breaks := map[string]func(s string) string{
		"empty":     func(string) string { return "" },
		"long":      func(s string) string { return s + strings.Repeat("x", 300) },
		"no_slash":  func(s string) string { return strings.ReplaceAll(s, "/", "") },
		"slashes":   func(s string) string { return s + "/x" },
		"no_type":   func(s string) string { return s[strings.Index(s, "/"):] },
		"line":      func(s string) string { return s + "\n" },
		"header":    func(s string) string { return s + "\r\nX-Injected: 1" },
		"control":   func(s string) string { return s[:1] + "\x00" + s[1:] },
		"escape":    func(s string) string { return "\x1b[2J" + s },
		"not_utf8":  func(s string) string { return s + "\xff" },
		"markup":    func(s string) string { return s + `"><script>` },
		"parameter": func(s string) string { return s + "; =x" },
		"space":     func(s string) string { return " " + s },
		"wide":      func(s string) string { return s + "\u202e" },
	}
	rapid.Check(t, func(t *rapid.T) {
		valid := name.Draw(t, "type") + "/" + name.Draw(t, "subtype")
		if rapid.Bool().Draw(t, "with a parameter") {
			valid += "; " + name.Draw(t, "name") + "=" + name.Draw(t, "value")
		}
		if err := wire.CheckMediaType("f", valid); err != nil {
			t.Fatalf("%q: got %v, want it accepted", valid, err)
		}
		for kind, broken := range breaks {
			err := wire.CheckMediaType("attachments[3].media_type", broken(valid))
			if err == nil || !strings.HasPrefix(err.Error(), "attachments[3].media_type") || len(err.Error()) > 500 || strings.ContainsAny(err.Error(), "\n\r\x1b\x00") {
				t.Fatalf("%s of %q: got %q, want it refused, with the field and in one short line", kind, valid, err)
			}
		}
	})
}
