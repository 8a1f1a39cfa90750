//go:build !linux

package process

import "os"

// handlePath is the path of a directory. Another directory may get the name between this and the start of the child process.
func handlePath(dir *os.File) string { return dir.Name() }
