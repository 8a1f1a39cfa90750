package httpapi_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/session/httpapi"
)

// FuzzParseTokens parses arbitrary files. None panics, each line gives at most one token, and no error contains the
// content of a line.
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

func TestParseTokens(t *testing.T) {
	t.Parallel()
	digest := strings.Repeat("ab", 32)
	list, err := httpapi.ParseTokens(strings.NewReader("# who may\n\n me\tread  " + digest + "\nyou admin " + strings.ToUpper(digest) +
		"\nyou admin uri:spiffe://a/b own tenant=acme expires=2030-01-31T12:00:00+01:00\n"))
	names := make([]string, len(list))
	for i, token := range list {
		names[i] = fmt.Sprintf("%s %s %x %s %v %s %d", token.Name, token.Scope, token.Digest[:2], token.Certificate, !token.Own, token.Tenant, max(token.Expires.Unix(), 0))
	}
	want := []string{"me read abab  true  0", "you admin abab  true  0", "you admin 0000 uri:spiffe://a/b false acme 1896087600"}
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("got %q, %v, want %q", names, err, want)
	}
	for _, line := range []string{
		"me read", "me read hunter2", "me read " + digest + "00", "me read hunter2 " + digest, "me read hunter2:x", "me read uri:",
		"me read " + digest + " expires=hunter2", "me read " + digest + " own=hunter2", "me read " + digest + " hunter2", "me read " + digest + " own=",
		"me read " + digest + " tenant=hunter2:", "me read " + digest + " own own",
	} {
		if _, err := httpapi.ParseTokens(strings.NewReader("\n" + line)); err == nil || !strings.HasPrefix(err.Error(), "line 2") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, want the line's number and nothing of it", line, err)
		}
	}
}

// TestReservedTokens refuses tokens with names that histories have for what no caller does.
func TestReservedTokens(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"timer", "Timer", "retention", "chat", "lash-node", "LASH-REPLAY"} {
		list, err := httpapi.ParseTokens(strings.NewReader("\n" + name + " read " + strings.Repeat("ab", 32)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := httpapi.NewTokens(list); err == nil || !strings.HasPrefix(err.Error(), "line 2: name: is ") || !strings.HasSuffix(err.Error(), "choose another name") {
			t.Errorf("%s: got %v, want the line, the field and what to do", name, err)
		}
	}
}

// TestEmptyToken refuses the digest of an empty text, which an unset variable makes, where tokens are loaded.
func TestEmptyToken(t *testing.T) {
	t.Parallel()
	list, err := httpapi.ParseTokens(strings.NewReader(fmt.Sprintf("me read %x\n", sha256.Sum256(nil))))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := httpapi.NewTokens(list); err == nil || !strings.Contains(err.Error(), "line 1: the digest is that of an empty token") {
		t.Errorf("got %v, want the line, and that its token is empty", err)
	}
}
