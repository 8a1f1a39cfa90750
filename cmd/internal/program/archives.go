package program

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
)

// ErrDamaged means that the file is an archive and does not verify.
var ErrDamaged = errors.New("the archive is damaged")

// ReadArchive reads an archive of at most this many MiB. Errors: [ErrDamaged].
func ReadArchive(path string, maxMiB int64) (*events.Archive, error) {
	f, err := OpenFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: lash-replay export SESSION -o FILE writes the archive of a session", err)
	}
	defer func() { _ = f.Close() }()
	whole, isArchive, err := events.PeekArchive(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: lash-replay export writes an archive", path, err) // for example a directory
	}
	if !isArchive {
		return nil, fmt.Errorf("%s is not an archive: lash-replay export writes one", path)
	}
	a, err := events.ReadArchive(whole, min(maxMiB, math.MaxInt64>>20)<<20)
	switch {
	case errors.Is(err, events.ErrTooLarge):
		return nil, fmt.Errorf("%s: %w: --max-mib allows more", path, err)
	case errors.Is(err, events.ErrFutureVersion):
		return nil, fmt.Errorf("%s: %w: use a newer program", path, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w: %w; lash-replay export writes another one from a store", path, ErrDamaged, err)
	}
	return a, nil
}

// Archives replaces the folders of a list of arguments by the archives in them, sorted. Other arguments stay. Errors: a folder
// without archives, and one that cannot be read.
func Archives(args []string) ([]string, error) {
	var files []string
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil || !info.IsDir() {
			files = append(files, arg)
			continue
		}
		had := len(files)
		err = filepath.WalkDir(arg, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.HasSuffix(path, ".lash") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(files) == had {
			return nil, fmt.Errorf("there is no archive in the folder %s: lash-replay export writes files like session.lash", arg)
		}
		slices.Sort(files[had:])
	}
	return files, nil
}
