// Package localfile reads files of this machine that a user names. Reading a pipe or a device may never end, so only regular files
// are read, and files that are read as a whole have a limit. Directories and files below another directory are opened without
// links, so that they are where their path says. It imports no other package of this repository.
package localfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// MaxBytes bounds the files of keys, tokens and settings, in bytes.
const MaxBytes = 16 << 20

// Open opens a file for reads. Anything else of that name, such as a pipe, a folder or a device, is refused.
func Open(path string) (*os.File, error) {
	path = filepath.Clean(path)
	if err := Check(path); err != nil { // before it is opened, which waits for the writer of a pipe
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = mustBeRegular(path, info) // it may have been replaced
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Check refuses what [Open] refuses, by its description.
func Check(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return notOpened(err)
	}
	return mustBeRegular(path, info)
}

func mustBeRegular(path string, info os.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return fmt.Errorf("%s is not a regular file: it is %s, name a file", path, kindOf(info.Mode()))
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeDevice != 0:
		return "a device"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "something else"
}

// notOpened is the error of opening a file whose description cannot be read.
func notOpened(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: "open", Path: p.Path, Err: p.Err}
	}
	return err
}

// Read reads a file of at most this many bytes. It refuses what [Open] refuses.
func Read(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err == nil {
		err = MustFit(path, info.Size(), most)
	}
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1)) // it may grow
	if err == nil {
		err = MustFit(path, int64(len(data)), most)
	}
	return data, err
}

// MustFit refuses a file of more bytes than the limit.
func MustFit(path string, size, most int64) error {
	if size <= most {
		return nil
	}
	return fmt.Errorf("%s is above the limit of %d bytes", path, most)
}
