package busembed

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const canSyncFilesystem = true

// filesystem is the filesystem of a directory.
type filesystem struct{ dir *os.File }

func openFilesystem(dir string) (*filesystem, error) {
	f, err := os.Open(filepath.Clean(dir))
	return &filesystem{f}, err
}

// sync writes to disk everything that was written to the filesystem before the call.
func (f *filesystem) sync() error { return unix.Syncfs(int(f.dir.Fd())) }

func (f *filesystem) close() { _ = f.dir.Close() }
