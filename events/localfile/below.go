package localfile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// ErrLink reports a link where [Below] and [OpenIn] follow none.
var ErrLink = errors.New("a link is on the way")

// Below opens the directory at a path below another one, component by component. It follows no link, also none that takes the
// place of a directory meanwhile: what it opens is at that path. perm are the rights of the directories that it makes; 0 makes
// none. Errors: [ErrLink], and those of the system.
func Below(top *os.Root, name string, perm fs.FileMode) (*os.Root, error) {
	dir, err := top.OpenRoot(".")
	for part := range strings.SplitSeq(path.Clean(name), "/") {
		if err != nil {
			return nil, err
		}
		above := dir
		dir, err = enter(above, part, perm)
		_ = above.Close() // nothing was written to it
	}
	return dir, err
}

// enter opens the directory of a name. Its slash keeps a pipe from waiting for its writer.
func enter(above *os.Root, name string, perm fs.FileMode) (*os.Root, error) {
	dir, err := above.OpenRoot(name + "/.")
	if perm != 0 && errors.Is(err, fs.ErrNotExist) {
		if err = above.Mkdir(name, perm); err == nil || errors.Is(err, fs.ErrExist) {
			dir, err = above.OpenRoot(name + "/.")
		}
	}
	if err != nil {
		return nil, cmp.Or(linkAt(above, name), err)
	}
	info, err := dir.Stat(".")
	if err == nil {
		err = mustBeAt(above, name, info)
	}
	if err != nil {
		_ = dir.Close()
		return nil, err
	}
	return dir, nil
}

// OpenIn opens a file in a directory. It follows no link. Errors: [ErrLink], and those of the system.
func OpenIn(dir *os.Root, name string, flag int) (*os.File, fs.FileInfo, error) {
	file, err := dir.OpenFile(name, flag, 0)
	if err != nil {
		return nil, nil, cmp.Or(linkAt(dir, name), err)
	}
	info, err := file.Stat()
	if err == nil {
		err = mustBeAt(dir, name, info)
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

// mustBeAt refuses an open file that has another name: a link led to it. As it is open, no new file can have its number.
func mustBeAt(dir *os.Root, name string, opened fs.FileInfo) error {
	at, err := dir.Lstat(name)
	switch {
	case err != nil:
		return err
	case os.SameFile(at, opened):
		return nil
	}
	return cmp.Or(linkAt(dir, name), fmt.Errorf("%w: %s was one, or is another file now", ErrLink, name))
}

// linkAt is an error that names a link and its target; nil where no link has the name.
func linkAt(dir *os.Root, name string) error {
	to, err := dir.Readlink(name)
	if err != nil {
		return nil //nolint:nilerr // it is no link
	}
	return fmt.Errorf("%w: %s leads to %s", ErrLink, name, to)
}
