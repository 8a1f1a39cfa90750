package program_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/internal/runtest"
)

// through writes a text in pieces.
func through(t *testing.T, text string, piece int) string {
	t.Helper()
	var out strings.Builder
	w := program.NewTerminal(&out)
	for from := 0; from < len(text); from += piece {
		_, err := w.Write([]byte(text[from:min(from+piece, len(text))]))
		runtest.NoError(t, err)
	}
	runtest.NoError(t, w.Close())
	return out.String()
}

// TestLongEveryCharacter writes every Unicode character, as text and in JSON, whole and byte by byte.
func TestLongEveryCharacter(t *testing.T) {
	t.Parallel()
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		text := "a" + string(r) + "b"
		got := through(t, text, len(text))
		acts := r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
		if raw := strings.ContainsRune(got, r); acts && raw || unicode.IsGraphic(r) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) && !unicode.Is(unicode.Variation_Selector, r) && !raw {
			t.Errorf("U+%04X: got %q", r, got)
		}
		if byByte := through(t, text, 1); byByte != got {
			t.Errorf("U+%04X byte by byte: got %q, want %q", r, byByte, got)
		}
		line, err := json.Marshal(text)
		runtest.NoError(t, err)
		var decoded string
		if err := json.Unmarshal([]byte(through(t, string(line), len(line))), &decoded); err != nil || decoded != text {
			t.Errorf("U+%04X in JSON: got %q and %v, want %q", r, decoded, err, text)
		}
	}
}

func TestEscapes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"\x1b]0;x\a": `\u001b]0;x\u0007`, "a\u202eb\u2066": `a\u202eb\u2066`, "\u200e\u200f\u061c": `\u200e\u200f\u061c`,
		"\u009b2J": `\u009b2J`, "\xc3(": `\xc3(`, "a\xe2\x80": `a\xe2\x80`, "\xff": `\xff`, "\ufffd": "\ufffd",
		"\U000e0041": `\udb40\udc41`, "a\r\n\tb": "a\\u000d\n\tb", "é ✔️ 中": "é ✔️ 中",
	} {
		for piece := 1; piece <= len(text); piece++ {
			if got := through(t, text, piece); got != want {
				t.Errorf("%q in pieces of %d: got %s, want %s", text, piece, got, want)
			}
		}
	}
}

// FuzzWriter writes in two pieces. The output has no control characters, and JSON keeps its value.
func FuzzWriter(f *testing.F) {
	f.Add("\x1b[2J\u202e\xff", 3)
	f.Add(`{"a":"\u009b"}`, 8)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		var out strings.Builder
		w := program.NewTerminal(&out)
		cut = min(max(cut, 0), len(text))
		_, _ = w.Write([]byte(text[:cut]))
		_, _ = w.Write([]byte(text[cut:]))
		_ = w.Close()
		got := out.String()
		for _, r := range got {
			if r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf) {
				t.Fatalf("got U+%04X in %q", r, got)
			}
		}
		var before, after any
		if !utf8.ValidString(got) {
			t.Fatalf("got %q, want UTF-8", got)
		}
		if utf8.ValidString(text) && !strings.Contains(text, "\r") && json.Unmarshal([]byte(text), &before) == nil {
			if err := json.Unmarshal([]byte(got), &after); err != nil || !reflect.DeepEqual(before, after) {
				t.Fatalf("got %q, %v, want the JSON %q", got, err, text)
			}
		}
	})
}
