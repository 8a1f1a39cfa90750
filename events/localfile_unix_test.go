//go:build unix

package events_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/events/localfile"
	"github.com/lash-go/lash/internal/runtest"
)

// TestOpen opens regular files. Pipes, folders and devices are refused with their name, at once.
func TestOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, fifo, link := filepath.Join(dir, "file"), filepath.Join(dir, "fifo.lash"), filepath.Join(dir, "link")
	runtest.NoError(t, os.WriteFile(file, []byte("12345"), 0o600))
	runtest.NoError(t, syscall.Mkfifo(fifo, 0o600))
	runtest.NoError(t, os.Symlink(file, link))
	for _, c := range []struct {
		path string
		err  string // empty: it is opened
	}{
		{file, ""},
		{link, ""},
		{fifo, "is not a regular file: it is a named pipe"},
		{dir, "is not a regular file: it is a directory"},
		{"/dev/zero", "is not a regular file: it is a device"},
		{filepath.Join(dir, "none"), "no such file"},
	} {
		f, err := localfile.Open(c.path)
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

// TestWritePipe writes to a pipe with a reader, without one, and to a file.
func TestWritePipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	runtest.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for name, open := range map[string]func(string) (*os.File, error){"create": localfile.Create, "append": localfile.Append} {
		if f, err := open(pipe); err == nil || !strings.Contains(err.Error(), pipe+" is a pipe that no program reads") {
			_ = f.Close()
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
		if _, err := open(dir); err == nil {
			t.Errorf("%s: got a folder opened", name)
		}
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0)
	runtest.NoError(t, err)
	defer func() { _ = reader.Close() }()
	for _, path := range []string{pipe, file} {
		text := strings.Repeat("x", 1<<20) // more than a pipe holds
		written := make(chan error, 1)
		go func() { written <- localfile.Write(path, []byte(text)) }()
		from := reader
		if path == file {
			runtest.NoError(t, <-written)
			if from, err = os.Open(file); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = from.Close() }()
		}
		got := make([]byte, len(text))
		if _, err := io.ReadFull(from, got); err != nil || string(got) != text {
			t.Errorf("%s: got %d bytes, %v, want what was written", path, len(got), err)
		}
	}
}
