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

// TestReadFile reads regular files up to the limit. Pipes, folders and devices are refused with their name, at once.
func TestReadFile(t *testing.T) {
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
		most int64
		err  string // empty: it is read
	}{
		{file, 5, ""},
		{link, 5, ""},
		{file, 4, "more than 4 bytes"},
		{fifo, 5, "is not a regular file"},
		{dir, 5, "is not a regular file"},
		{"/dev/zero", 5, "is not a regular file"},
		{filepath.Join(dir, "none"), 5, "no such file"},
	} {
		data, err := program.ReadFile(c.path, c.most)
		switch {
		case c.err == "" && (err != nil || string(data) != "12345"):
			t.Errorf("%s: got %q, %v", c.path, data, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), c.path)):
			t.Errorf("%s: got %v, want %q", c.path, err, c.err)
		}
	}
}
