package localfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Create is [os.Create] for a file that a user names. It does not wait for the reader of a pipe, and refuses a pipe without one.
func Create(path string) (*os.File, error) { return openToWrite(path, os.O_TRUNC) }

// Append opens a file for appends. It need not be readable. A pipe is as for [Create].
func Append(path string) (*os.File, error) { return openToWrite(path, os.O_APPEND) }

func openToWrite(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Clean(path), flag|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o600)
	if errors.Is(err, syscall.ENXIO) {
		return nil, fmt.Errorf("%s is a pipe that no program reads: start its reader first", path)
	}
	return f, err
}

// Write is [os.WriteFile] by [Create].
func Write(path string, data []byte) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
