//go:build unix

package serve

import (
	"errors"
	"syscall"
)

// openFiles is the limit of open files of this process.
func openFiles() (uint64, error) {
	var files syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files)
	return uint64(files.Cur), err //nolint:unconvert // its type is signed on some systems
}

// hardLimits are those of the processor time and the data of this process, and so of its commands.
func hardLimits() (seconds, bytes uint64, err error) {
	var cpu, data syscall.Rlimit
	err = errors.Join(syscall.Getrlimit(syscall.RLIMIT_CPU, &cpu), syscall.Getrlimit(syscall.RLIMIT_DATA, &data))
	return uint64(cpu.Max), uint64(data.Max), err //nolint:unconvert // their type is signed on some systems
}
