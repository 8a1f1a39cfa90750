//go:build unix

package program_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/cmd/internal/program"
)

// TestOpenFile opens regular files. Pipes, folders and devices are refused with their name, at once.
func TestOpenFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, fifo, link := filepath.Join(dir, "file"), filepath.Join(dir, "fifo.lash"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		err  string // empty: it is opened
	}{
		{file, ""},
		{link, ""},
		{fifo, "is not a regular file"},
		{dir, "is not a regular file"},
		{"/dev/zero", "is not a regular file"},
		{filepath.Join(dir, "none"), "no such file"},
	} {
		f, err := program.OpenFile(c.path)
		if err == nil {
			_ = f.Close()
		}
		switch {
		case c.err == "" && err != nil:
			t.Errorf("%s: got %v", c.path, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), c.path)):
			t.Errorf("%s: got %v, want %q", c.path, err, c.err)
		}
	}
}
