package program

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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
