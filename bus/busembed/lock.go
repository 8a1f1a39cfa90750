package busembed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrHeld is a store directory that a running server has, in this process or
// another. Two servers on one store would destroy it, and the server itself does not look.
var ErrHeld = errors.New("store is in use by a running process")

// lockName is the file in the store directory that a running server has locked.
const lockName = "lash.lock"

// lock takes the store directory. [unlock], or the end of the process, gives it back.
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
