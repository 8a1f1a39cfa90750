package program

import (
	"fmt"
	"os"
	"path/filepath"
)

// OpenFile opens a file that a user named. Anything else of that name, such as a pipe or a device, is refused: reading it may
// never end.
func OpenFile(path string) (*os.File, error) {
	path = filepath.Clean(path)
	info, err := os.Stat(path) // before it is opened, which waits for the writer of a pipe
	if err != nil {
		return nil, err
	}
	if err := mustBeRegular(path, info); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = mustBeRegular(path, info) // it may have been replaced
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func mustBeRegular(path string, info os.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return fmt.Errorf("%s is not a regular file, but %s: name a file", path, info.Mode().Type())
}
