package program

import (
	"fmt"
	"io"
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

// ReadFile reads such a file of at most so many bytes.
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s has more than %d bytes, which is the limit", path, most)
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

func mustBeRegular(path string, info os.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return fmt.Errorf("%s is not a regular file, but %s: name a file", path, info.Mode().Type())
}
