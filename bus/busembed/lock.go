package busembed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrInUse is a store directory that has a running server, in this process or another. Two servers on one store would
// destroy it, and the server itself does not check.
var ErrInUse = errors.New("store is in use by a running process")

// lockName is the file in the store directory that a running server locks.
const lockName = "lash.lock"

// lock locks the store directory, until [unlock] or the end of the process.
func lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(filepath.Clean(dir), lockName), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, err
	}
	if err := tryLock(f); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	if now, err := os.Stat(f.Name()); err != nil || !sameFile(now, f) {
		unlock(f)
		return nil, fmt.Errorf("the process that made %s has removed it", dir)
	}
	return f, nil
}

func sameFile(info os.FileInfo, f *os.File) bool {
	opened, err := f.Stat()
	return err == nil && os.SameFile(info, opened)
}

// makeStore makes the store directory. It returns the directory where it did not exist, else the empty string.
func makeStore(dir string) (made string, err error) {
	dir = filepath.Clean(dir)
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", err
	}
	if err = os.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
		return "", os.MkdirAll(dir, 0o700) // an error where it is no directory
	}
	return dir, err
}

// removeMade removes the store directory where this server made it. The caller has the lock.
func (s *Server) removeMade() {
	if s.made != "" {
		_ = os.RemoveAll(s.made) // what stays is a store without sessions
	}
}
