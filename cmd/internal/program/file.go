package program

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lash-go/lash/events/localfile"
)

// MaxFileBytes bounds the files of keys, tokens and settings that flags name, in bytes.
const MaxFileBytes = localfile.MaxBytes

// OpenFile opens a file that a user named. Anything else of that name, such as a pipe or a device, is refused: reading it may
// never end.
func OpenFile(path string) (*os.File, error) { return localfile.Open(path) }

// ReadFile reads a file that a flag names, of at most this many bytes. It refuses what [OpenFile] refuses.
func ReadFile(path string, most int64) ([]byte, error) { return localfile.Read(path, most) }

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
		err = localfile.MustFit(path, info.Size(), MaxFileBytes)
	}
	return err
}
