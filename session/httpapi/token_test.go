package httpapi_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/lash-go/lash/session/httpapi"
)

// FuzzParseTokens reads files of tokens. Nothing panics, no line is two tokens, and no error tells what a line holds.
func FuzzParseTokens(f *testing.F) {
	f.Add([]byte("# who may\n\nme read " + strings.Repeat("ab", 32) + "\n"))
	f.Add([]byte("me read hunter2\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		list, err := httpapi.ParseTokens(bytes.NewReader(file))
		if lines := bytes.Count(file, []byte("\n")) + 1; len(list) > lines {
			t.Errorf("got %d tokens of %d lines", len(list), lines)
		}
		if err != nil && len(err.Error()) > 100 {
			t.Errorf("got %q, want no line in it", err)
		}
	})
}
