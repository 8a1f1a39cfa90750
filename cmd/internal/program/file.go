package program

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// OpenFile opens a file that a user named. Anything else of that name, such as a pipe or a device, is refused: reading it may
// never end.
func OpenFile(path string) (*os.File, error) {
	path = filepath.Clean(path)
	info, err := os.Stat(path) // before it is opened, which waits for the writer of a pipe
	if err != nil {
		return nil, notOpened(err)
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

// notOpened is the error of opening a file whose description cannot be read.
func notOpened(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: "open", Path: p.Path, Err: p.Err}
	}
	return err
}

// MaxFileBytes bounds the files of keys, tokens and settings that flags name, in bytes.
const MaxFileBytes = 16 << 20

// ReadFile reads a file that a flag names, of at most this many bytes. It refuses what [OpenFile] refuses.
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err == nil {
		err = mustFit(path, info.Size(), most)
	}
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1)) // it may grow
	if err == nil {
		err = mustFit(path, int64(len(data)), most)
	}
	return data, err
}

// ReadSetting is [ReadFile] with the limit of [MaxFileBytes].
func ReadSetting(path string) ([]byte, error) { return ReadFile(path, MaxFileBytes) }

// CheckFiles is [CheckFile] for files of a directory. Those that do not exist are not refused.
func CheckFiles(dir string, names ...string) error {
	for _, name := range names {
		if err := CheckFile(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// CheckFile refuses a file that another package reads and [ReadFile] would refuse, by its description.
func CheckFile(path string) error {
	f, err := OpenFile(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err == nil {
		err = mustFit(path, info.Size(), MaxFileBytes)
	}
	return err
}

func mustFit(path string, size, most int64) error {
	if size <= most {
		return nil
	}
	return fmt.Errorf("%s is above the limit of %d bytes", path, most)
}
