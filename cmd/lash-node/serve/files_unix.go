//go:build unix

package serve

import "syscall"

// openFiles is the limit of open files of this process.
func openFiles() (uint64, error) {
	var files syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files)
	return uint64(files.Cur), err //nolint:unconvert // its type is signed on some systems
}
