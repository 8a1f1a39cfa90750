//go:build unix

package serve

import "syscall"

// openFiles is how many files this process may open.
func openFiles() (uint64, error) {
	var files syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files)
	return uint64(files.Cur), err //nolint:unconvert // it is signed on some systems
}
