package busembed

import (
	"errors"
	"fmt"
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
	return f, nil
}
