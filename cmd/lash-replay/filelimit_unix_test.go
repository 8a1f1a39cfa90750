//go:build unix

package main

import (
	"bytes"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/internal/runtest"
)

// TestFileFlags gives flags of files a file above their limit, a named pipe and an endless device. The command ends with the
// flag, the path, and the limit or that it wants a file.
func TestFileFlags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	large, pipe := filepath.Join(dir, "large"), filepath.Join(dir, "pipe")
	runtest.NoError(t, os.WriteFile(large, nil, 0o600))
	if err := os.Truncate(large, maxHeadsBytes+1); err != nil { // without content: it takes no room
		t.Fatal(err)
	}
	runtest.NoError(t, syscall.Mkfifo(pipe, 0o600))
	_, key, err := note.GenerateKey(rand.Reader, "lash")
	runtest.NoError(t, err)
	const nowhere = " --nats nats://127.0.0.1:1"
	for flag, line := range map[string]string{
		"creds":      "ls FILE" + nowhere,
		"tls-ca":     "ls FILE" + nowhere,
		"tls-cert":   "ls FILE --tls-key x" + nowhere,
		"tls-key":    "ls FILE --tls-cert x" + nowhere,
		"bodies-key": "ls FILE" + nowhere,
		"key":        "verify s FILE" + nowhere,
		"head":       "verify s --key " + key + " FILE" + nowhere,
	} {
		for path, want := range map[string]string{large: " is above the limit of ", pipe: "is not a regular file", "/dev/zero": "is not a regular file"} {
			var messages bytes.Buffer
			args := strings.Fields(strings.Replace(line, "FILE", "--"+flag+" "+path, 1))
			code := run(t.Context(), args, &program.Streams{Out: io.Discard, Err: &messages, Env: func(string) string { return "" }})
			if text := messages.String(); code == 0 || !strings.Contains(text, "--"+flag) || !strings.Contains(text, path) || !strings.Contains(text, want) {
				t.Errorf("%s: got %d, %q, want the flag, the path and %q", strings.Join(args, " "), code, text, want)
			}
		}
	}
}
